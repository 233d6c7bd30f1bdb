/** The files of the live page, as they are sent: with a policy under which nothing from elsewhere runs. */
import { createServer } from "node:http";
import express from "express";
import { beforeAll, expect, test } from "vitest";
import { livePageRouter } from "../../../../src/service/api/live-page.ts";
import { listenUntilEnd } from "../../../helpers/listen.ts";

let url: string;

beforeAll(async () => {
  url = await listenUntilEnd(createServer(express().use(livePageRouter())));
});

test.for([
  ["/", "text/html"],
  ["/page.css", "text/css"],
  ["/page.js", "text/javascript"],
  ["/client.js", "text/javascript"],
  ["/sightings.js", "text/javascript"],
  ["/view.js", "text/javascript"],
] as const)(
  "%s comes as %s, is asked for again after an upgrade, and runs nothing from elsewhere",
  async ([path, type]) => {
    const { status, headers } = await fetch(new URL(path, url));
    expect([status, headers.get("content-type")?.split(";")[0]]).toEqual([200, type]);
    expect(headers.get("cache-control")).toBe("no-cache");
    const policy = (headers.get("content-security-policy") ?? "").split("; ").sort();
    expect(policy).toEqual([
      "base-uri 'none'",
      "connect-src 'self'",
      "default-src 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
      "img-src data:",
      "require-trusted-types-for 'script'",
      "script-src 'self'",
      "style-src 'self'",
    ]);
  },
);

test("nothing else of its folder, or outside of it, is sent", async () => {
  for (const path of ["/page.html", "/..%2fpackage.json", "/web/page.js"])
    expect((await fetch(new URL(path, url))).status, path).toBe(404);
});
