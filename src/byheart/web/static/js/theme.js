// Sets the colours before anything is painted.
(function () {
  let chosen = null;
  try { chosen = localStorage.getItem("byheart-theme"); } catch (error) { /* storage may be off */ }
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
