/** The page of the document shows each operation once, in the section of its tag, and a client needs each part of a path. */
import { expect, test } from "vitest";
import { documentPage } from "../../../../src/service/api/document-page.ts";
import { openApiOf } from "../../../../src/service/api/openapi.ts";
import { agentRoutes } from "../../../../src/service/api/routes/agents.ts";
import { replyRoutes } from "../../../../src/service/api/routes/replies.ts";

const ROUTES = [...agentRoutes, ...replyRoutes];

test("each operation stands once, in its own section", () => {
  const [, agents = "", replies = ""] = documentPage(ROUTES, openApiOf(ROUTES)).split("<h2 ");
  const shown = [agents, replies].map((section) =>
    [...section.matchAll(/<details id="(\w+)">/g)].map(([, id]) => id),
  );
  expect(shown).toEqual([agentRoutes.map(({ id }) => id), replyRoutes.map(({ id }) => id)]);
});

test("every part of a path is a parameter that must be there", () => {
  expect(openApiOf(ROUTES)).toMatchObject({
    paths: {
      "/v1/parents/{parent}/agents/{agent}/files/{path}": {
        parameters: ["parent", "agent", "path"].map((name) => ({ name, in: "path", required: true })),
      },
    },
  });
});
