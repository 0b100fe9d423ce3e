// Run in a page; returns what is wrong with it: contrast (WCAG 2 AA), names of controls, landmarks, ids, width.
const found = [];
const seen = (element) => {
  const style = getComputedStyle(element);
  const box = element.getBoundingClientRect();
  return style.visibility !== "hidden" && style.display !== "none" && box.width > 1 && box.height > 1 && !element.closest("[hidden]");
};
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const colour = (text) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = text;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return { r, g, b, a: a / 255 };
};
const over = (top, below) => ({
  r: top.r * top.a + below.r * (1 - top.a), g: top.g * top.a + below.g * (1 - top.a), b: top.b * top.a + below.b * (1 - top.a), a: 1,
});
const ground = (element) => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) {
    const layer = colour(getComputedStyle(at).backgroundColor);
    if (layer.a > 0) layers.unshift(layer);
    if (layer.a === 1) break;
  }
  return layers.reduce((below, top) => over(top, below), { r: 255, g: 255, b: 255, a: 1 });
};
const light = ({ r, g, b }) => {
  const part = (value) => { const v = value / 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
};
const contrast = (one, other) => {
  const [high, low] = [light(one), light(other)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
};
const named = (element) => `<${element.tagName.toLowerCase()} class="${element.className}"> ${(element.textContent || "").trim().slice(0, 40)}`;

const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.textContent.trim() || !seen(element) || ["SCRIPT", "STYLE", "OPTION"].includes(element.tagName)) continue;
  const style = getComputedStyle(element);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  const below = ground(element);
  const ratio = contrast(over(colour(style.color), below), below);
  if (ratio < (large ? 3 : 4.5)) found.push(`contrast ${ratio.toFixed(2)}: ${named(element)}`);
}
for (const control of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
  if (!seen(control)) continue;
  if (!control.labels?.length && !control.getAttribute("aria-label")) found.push(`no label: ${named(control)} ${control.name}`);
  const ratio = contrast(colour(getComputedStyle(control).borderTopColor), ground(control.parentElement));
  if (ratio < 3) found.push(`edge ${ratio.toFixed(2)}: ${control.name}`);
}
for (const control of document.querySelectorAll("button, a[href], summary")) {
  if (!seen(control)) continue;
  if (!(control.textContent.trim() || control.getAttribute("aria-label"))) found.push(`no name: ${control.outerHTML.slice(0, 80)}`);
  if (control.tagName === "BUTTON" && !control.classList.contains("link") && control.getBoundingClientRect().height < 32) found.push(`small: ${named(control)}`);
}
const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
found.push(...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `twice the id ${id}`));
if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
if (document.querySelectorAll("main").length !== 1) found.push("not one main");
if (!document.documentElement.lang) found.push("no language");
if (!document.title.trim()) found.push("no title");
if (document.querySelectorAll("[style], style, script:not([src])").length) found.push("style or script within the page");
if (document.documentElement.scrollWidth > innerWidth) found.push(`wider than the window: ${document.documentElement.scrollWidth} > ${innerWidth}`);
return found;
