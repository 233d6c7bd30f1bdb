/**
 * The OpenAPI document as an HTML page, without scripts and without resources from other addresses: so it works under the
 * strictest content security policy and needs no dependency.
 */
import { escaped } from "./problem.ts";
import type { Route } from "./route.ts";

const STYLE = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; background: #fff }
h2 { margin-top: 2.5rem } code, pre { font: 14px/1.45 ui-monospace, monospace } code, td:last-child { overflow-wrap: anywhere } td:first-child code { overflow-wrap: normal }
details { border: 1px solid #d0d7de; border-radius: 6px; margin: .5rem 0; padding: .5rem .75rem }
summary { cursor: pointer } pre { overflow-x: auto; background: #f6f8fa; padding: .75rem; border-radius: 6px }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700 } table { border-collapse: collapse }
td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top }
@media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #0d1117 } pre { background: #161b22 } details { border-color: #30363d } a { color: #7cb7ff } }`;

/** Returns the page for `routes`; `document` is their OpenAPI document. */
export function documentPage(routes: readonly Route[], document: Record<string, unknown>): string {
  const tags = [...new Set(routes.map(({ tag }) => tag))];
  const sections = tags.map((tag) => {
    const rows = routes.filter((row) => row.tag === tag).map((row) => operation(row, document));
    return `<h2 id="${escaped(tag)}">${escaped(tag)}</h2>\n${rows.join("\n")}`;
  });
  const links = tags.map((tag) => `<a href="#${escaped(tag)}">${escaped(tag)}</a>`).join(" · ");
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><title>subagent-queue API</title><style>${STYLE}</style></head><body>
<h1>subagent-queue API</h1>
<p>${prose(at(document, "info", "description"))}</p>
<p>${links} · <a href="#shapes">shapes</a> · <a href="openapi.json">openapi.json</a></p>
${sections.join("\n")}
<h2 id="shapes">shapes</h2>
${shapes(document)}
</body></html>
`;
}

function operation(row: Route, document: Record<string, unknown>): string {
  const described = at(document, "paths", row.path, row.method);
  const parameters = [at(document, "paths", row.path, "parameters"), at(described, "parameters")].flatMap(
    (list) => (Array.isArray(list) ? list : []),
  );
  const rows = parameters.map(
    (each) =>
      `<tr><td><code>${escaped(at(each, "name"))}</code></td><td>${escaped(at(each, "in"))}</td><td>${prose(at(each, "description"))}</td></tr>`,
  );
  const answers = Object.entries(row.answers).map(
    ([status, { says, media }]) =>
      `<tr><td>${status}</td><td>${prose(says)}${media ? ` <code>${escaped(media)}</code>` : ""}</td><td>${shapeLink(at(described, "responses", status, "content", "application/json", "schema"))}</td></tr>`,
  );
  const body = shapeLink(at(described, "requestBody", "content", "application/json", "schema"));
  return `<details id="${escaped(row.id)}"><summary><span class="method">${row.method.toUpperCase()}</span> <code>${escaped(row.path)}</code> ${prose(row.says)}</summary>
<p>Scope: <code>${row.scope}</code>${body && ` · body: ${body}`}</p>
<table>${rows.join("")}</table><table>${answers.join("")}</table></details>`;
}

/** Returns a link to a named shape, or the text of an unnamed one. */
function shapeLink(schema: unknown): string {
  if (schema === undefined) return "";
  const reference = at(schema, "$ref");
  if (typeof reference !== "string") return `<pre>${escaped(JSON.stringify(schema, undefined, 2))}</pre>`;
  const name = escaped(reference.slice(reference.lastIndexOf("/") + 1));
  return `<a href="#shape-${name}">${name}</a>`;
}

function shapes(document: Record<string, unknown>): string {
  const all = at(document, "components", "schemas");
  return Object.entries(typeof all === "object" && all !== null ? all : {})
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(
      ([name, schema]) =>
        `<details id="shape-${escaped(name)}"><summary><code>${escaped(name)}</code></summary><pre>${escaped(JSON.stringify(schema, undefined, 2))}</pre></details>`,
    )
    .join("\n");
}

/** Returns the value at a path of names in a JSON value; undefined if the path does not exist. */
function at(value: unknown, ...names: string[]): unknown {
  return names.reduce<unknown>(
    (found, name) => (typeof found === "object" && found !== null ? Reflect.get(found, name) : undefined),
    value,
  );
}

/** Returns a sentence of the document as HTML; backticks mark code. */
function prose(value: unknown): string {
  return escaped(value).replace(/`([^`]+)`/g, "<code>$1</code>");
}
