/** The document as a page: every word of it is text, and every link leads somewhere. */
import { expect, test } from "vitest";
import { documentPage } from "../../../../src/service/api/document-page.ts";
import { openApiOf } from "../../../../src/service/api/openapi.ts";
import { type Route, route } from "../../../../src/service/api/route.ts";
import { agentRoutes } from "../../../../src/service/api/routes/agents.ts";
import { replyRoutes } from "../../../../src/service/api/routes/replies.ts";
import { taskRoutes } from "../../../../src/service/api/routes/tasks.ts";

const pageOf = (routes: readonly Route[]) => documentPage(routes, openApiOf(routes));
const ROUTES = [...taskRoutes, ...agentRoutes, ...replyRoutes];
const page = pageOf(ROUTES);

/** The part of the page about one operation. */
function partOf(id: string): string {
  const from = page.indexOf(`<details id="${id}">`);
  return page.slice(from, page.indexOf("</details>", from));
}

test("what a route says is text on the page, and what stands in backticks is code", () => {
  const odd = route({
    method: "get",
    path: "/v1/odd",
    id: "odd",
    tag: "odd",
    says: 'Shows `a <b> & "c"` <script>alert(1)</script>.',
    scope: "admin",
    answers: { 200: { says: "<i>All</i> of it.", media: '"><img src=x>' } },
    handle: async () => "streamed",
  });
  const shown = pageOf([odd]);
  expect(shown).not.toMatch(/<script|<i>|<img/);
  expect(shown).toContain("Shows <code>a &#60;b&#62; &#38; &#34;c&#34;</code> &#60;script&#62;");
  expect(shown).toContain("Scope: <code>admin</code>");
});

test("every link within the page has its place there", () => {
  const links = [...page.matchAll(/href="#([^"]*)"/g)].map(([, name]) => name);
  const places = new Set([...page.matchAll(/\bid="([^"]*)"/g)].map(([, name]) => name));
  expect(links.length).toBeGreaterThan(ROUTES.length);
  expect(links.filter((name) => !places.has(name ?? ""))).toEqual([]);
});

test("an operation has its parameters of path, query and header, and the shapes of its body and of each answer", () => {
  const task = partOf("task");
  for (const name of ["parent", "wait", "Idempotency-Key"]) expect(task).toContain(`<code>${name}</code>`);
  expect(task).toContain('body: <a href="#shape-TaskInput">');
  expect(task).toMatch(/<td>200<\/td>.*#shape-Reply".*<td>202<\/td>.*#shape-TaskBegun"/);
  expect(partOf("readReplies")).toContain("<code>text/event-stream</code>");
});
