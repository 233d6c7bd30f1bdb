/** A mount for browsers: its pages show why a request of theirs was refused, also one that its guard refuses. */
import { createServer } from "node:http";
import type { RequestHandler } from "express";
import { expect, test } from "vitest";
import { createApiApp } from "../../../../src/service/api/app.ts";
import type { Auth, MountParts } from "../../../../src/service/api/mount.ts";
import { sendProblem } from "../../../../src/service/api/problem.ts";
import { SubagentError } from "../../../../src/shared/errors.ts";
import { listenUntilEnd } from "../../../helpers/listen.ts";

const AWAY = "Redis <here> cannot be reached: call again.";

test("Bull Board's pages get the sentence in the field that they show, a person a page, other clients the document alone", async () => {
  const refuse: RequestHandler = (_request, response) =>
    sendProblem(response, new SubagentError("redis_unavailable", AWAY));
  const auth: Partial<Auth> = { require: () => refuse };
  const pass: RequestHandler = (_request, _response, next) => next();
  const mount = { scope: "admin", handler: () => pass } as const;
  const app = createApiApp({
    ...{ auth: auth as Auth, hosts: "any", count: pass, open: pass, routes: [] },
    mounts: [
      { ...mount, path: "/pages", isForBrowsers: true },
      { ...mount, path: "/programs" },
    ],
    parts: {} as MountParts,
  });
  const url = await listenUntilEnd(createServer(app));
  const read = async (path: string): Promise<unknown> => (await fetch(url + path)).json();
  expect(await read("/pages/api")).toMatchObject({ code: "redis_unavailable", detail: AWAY, error: AWAY });
  expect(await read("/programs")).not.toHaveProperty("error");
  // A person loads the page anew: the browser names HTML first.
  const headers = { accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8" };
  const page = await fetch(`${url}/pages`, { headers });
  expect([page.status, page.headers.get("content-type")]).toEqual([503, "text/html; charset=utf-8"]);
  expect(await page.text()).toContain(
    "<h1>Service Unavailable</h1><p>Redis &#60;here&#62; cannot be reached",
  );
  expect(await (await fetch(`${url}/programs`, { headers })).json()).toMatchObject({ detail: AWAY });
});
