// Asking again now and then, for as long as a view is shown and somebody may look at it.

/** `ask()` gives what is new or null; `every()` is the pause in milliseconds, 0 ends it. Returns a function that ends it. */
export function poll(ask, show, every, fail) {
  let timer = 0;
  let isOver = false;
  const turn = async () => {
    if (isOver) return;
    if (!document.hidden) {
      try {
        const news = await ask();
        if (isOver) return;
        if (news !== null) show(news);
        fail(null);
      } catch (error) {
        if (isOver) return;
        fail(error);
      }
    }
    const pause = every();
    if (pause && !isOver) timer = setTimeout(turn, pause);
  };
  const wake = () => {
    if (document.hidden || isOver) return;
    clearTimeout(timer);
    turn();
  };
  document.addEventListener("visibilitychange", wake);
  turn();
  return () => {
    isOver = true;
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", wake);
  };
}
