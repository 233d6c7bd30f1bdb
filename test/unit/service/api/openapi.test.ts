/** What the document says of every route, held against the routes themselves. */
import { expect, test } from "vitest";
import { openApiOf } from "../../../../src/service/api/openapi.ts";
import { agentRoutes } from "../../../../src/service/api/routes/agents.ts";
import { eventRoutes } from "../../../../src/service/api/routes/events.ts";
import { parentRoutes } from "../../../../src/service/api/routes/parents.ts";
import { replyRoutes } from "../../../../src/service/api/routes/replies.ts";
import { taskRoutes } from "../../../../src/service/api/routes/tasks.ts";

const ROUTES = [taskRoutes, agentRoutes, parentRoutes, replyRoutes, eventRoutes].flat();
// biome-ignore lint/suspicious/noExplicitAny: a document is walked through as it comes
const document: any = openApiOf(ROUTES);

test.for(ROUTES.map((row) => [row.id, row] as const))(
  "%s: its scope, whether it may be repeated, its body and its refusals",
  ([, row]) => {
    const operation = document.paths[row.path][row.method];
    expect(operation.description).toBe(`Scope: \`${row.scope}\`.`);
    const headers = (operation.parameters ?? []).filter((each: { in: string }) => each.in === "header");
    expect(headers.map(({ name }: { name: string }) => name)).toEqual(
      row.isRepeatable ? ["Idempotency-Key"] : [],
    );
    expect(operation.requestBody?.required).toBe(row.body && true);
    for (const refusals of ["4XX", "5XX"])
      expect(operation.responses[refusals].content).toEqual({
        "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } },
      });
    for (const [status, { schema, media }] of Object.entries(row.answers))
      expect(Object.keys(operation.responses[status].content ?? {})).toEqual([
        ...(schema ? ["application/json"] : []),
        ...(media === undefined ? [] : [media]),
      ]);
  },
);

test("a client that was made from it sends its key as a bearer, with every request", () => {
  const [[name, scheme]] = Object.entries<object>(document.components.securitySchemes) as [[string, object]];
  expect(scheme).toMatchObject({ type: "http", scheme: "bearer" });
  expect(document.security).toEqual([{ [name]: [] }]);
});
