"""No picture of a sample is missing, out of order or out of place."""

from collections import Counter
from collections.abc import Sequence

from gym_core.types.sample import SampleImage, TrainingSample
from tests.live.token_exact.evidence import Leg, Session
from tests.live.token_exact.findings import Findings
from tests.live.token_exact.teacher import Teacher


def check_pictures(session: Session, sample: TrainingSample, leg: Leg, teacher: Teacher, found: Findings) -> None:
    seen = leg.log.of_call[sample.calls[-1].call_id]
    own = [image.sha256 for image in sample.images]
    found.expect(own == seen.pictures, f"{sample.sample_id}: pictures differ from the engine's, or in order")
    places = [_expected_span(sample, image, leg, teacher, found) for image in sample.images]
    pads = {at for at, token in enumerate(sample.token_ids) if token == teacher.image_pad}
    by_policy = {at for span in sample.calls for at in range(span.start, span.end)}
    covered = [at for place in places for at in place]
    found.expect(sorted(pads - by_policy) == covered, f"{sample.sample_id}: placeholders are not the pictures' spans")
    sizes = Counter((image.width, image.height) for image in sample.images)
    hashes = Counter(((image.width, image.height), image.sha256) for image in sample.images)
    found.counts["pictures of samples"] += len(own)
    found.counts["samples with pictures of one size and other content"] += any(
        sizes[size] > count for (size, _), count in hashes.items()
    )
    for image in sample.images:
        call = session.calls[image.call_id]
        found.expect(image.sha256 in call.images, f"{sample.sample_id}: {image.call_id} brought no {image.sha256}")


def _expected_span(
    sample: TrainingSample, image: SampleImage, leg: Leg, teacher: Teacher, found: Findings
) -> Sequence[int]:
    rows, columns = teacher.grid(leg.assets.get(image.sha256))
    if image.offset is None or image.length is None:
        found.expect(sample.mask, f"{sample.sample_id}: a picture without a place in a sample that is not masked")
        return []
    end = image.offset + image.length
    found.expect(
        image.length == rows * columns, f"{sample.sample_id}: {image.length} placeholders, not {rows}x{columns}"
    )
    found.expect(image.grid_hw == (rows, columns), f"{sample.sample_id}: grid {image.grid_hw}, not {rows}x{columns}")
    around = sample.token_ids[image.offset - 1], sample.token_ids[end]
    found.expect(
        around == (teacher.vision_start, teacher.vision_end),
        f"{sample.sample_id}: a picture's span is not between marks",
    )
    return range(image.offset, end)
