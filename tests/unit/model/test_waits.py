from gym_core.servers.model.waits import Waits


def test_calls_that_wait_side_by_side_count_once() -> None:
    waits = Waits()
    waits.begin(10.0)
    waits.begin(12.0)
    waits.end(14.0)
    assert waits.seconds(15.0) == 5.0
    waits.end(16.0)
    assert waits.seconds(99.0) == 6.0
    waits.begin(100.0)
    waits.end(101.0)
    assert waits.seconds(200.0) == 7.0
