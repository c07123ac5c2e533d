
// The page is fetched again once the report has changed; what was unfolded stays so, and in its place.
(() => {
  const line = document.querySelector(".live"), key = "fathom" + location.pathname;
  const kept = JSON.parse(sessionStorage.getItem(key) ?? "null");
  const folds = [...document.querySelectorAll("details")];
  sessionStorage.removeItem(key);
  if (kept) {
    folds.forEach((one, index) => { if (kept.open.includes(index)) one.open = true; });
    scrollTo({top: kept.top, behavior: "instant"});
  }
  setInterval(async () => {
    try {
      const stamp = await (await fetch("stamp")).text();
      if (stamp === line.dataset.stamp) return;
      const open = folds.flatMap((one, index) => one.open ? [index] : []);
      sessionStorage.setItem(key, JSON.stringify({open, top: scrollY}));
      location.reload();
    } catch {
      line.firstElementChild.textContent = "`fathom ui` has ended: this is the report as it was.";
    }
  }, 3000);
})();
