import { createServer } from "node:http";
import express from "express";
import { expect, test } from "vitest";
import { problemDocument, sendProblem } from "../../../../src/service/api/problem.ts";
import { type ErrorCode, SubagentError } from "../../../../src/shared/errors.ts";
import { createLogger } from "../../../../src/shared/logger.ts";
import { listenUntilEnd } from "../../../helpers/listen.ts";

const detailsOf = (details: Record<string, unknown>) =>
  problemDocument(new SubagentError("invalid_input", "Wrong.", details), undefined).details;

test("the details of a problem repeat four levels of a request, and no more", () => {
  const nested = { a: { b: { c: { d: { e: "deep" } } } } };
  expect(detailsOf(nested)).toEqual({ a: { b: { c: { d: "…" } } } });
  expect(detailsOf({ list: [[[["deep"]]]] })).toEqual({ list: [[["…"]]] });
});

test("they repeat 500 characters of a text or name, and 20 entries of a list or an object", () => {
  const { text, list, object } = detailsOf({
    text: "x".repeat(501),
    list: Array.from({ length: 21 }, (_, i) => i),
    object: Object.fromEntries(Array.from({ length: 21 }, (_, i) => [`f${i}`, i])),
  }) as { text: string; list: number[]; object: object };
  expect([text.length, list.length, Object.keys(object).length]).toEqual([500, 20, 20]);
  const [name = ""] = Object.keys(detailsOf({ ["n".repeat(501)]: 1 }) ?? {});
  expect(name).toHaveLength(500);
});

test.for(["invalid_config", "protocol_violation", "setup_failed", "invalid_tool"] as const)(
  "an error of the process, %s, keeps its details from clients and logs them",
  (code) => {
    const lines: string[] = [];
    const logger = createLogger({ level: "error", destination: { write: (line) => void lines.push(line) } });
    const error = new SubagentError(code, "Odd data.", { key: "where it is" });
    expect(problemDocument(error, logger).details).toBeUndefined();
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ code, details: { key: "where it is" } }]);
  },
);

test("a refusal that may pass says when to ask again, once; no refusal is for a cache", async () => {
  const app = express();
  const refusing = (path: string, code: ErrorCode, retryAfter?: string) =>
    app.get(path, (_request, response) => {
      if (retryAfter !== undefined) response.set("Retry-After", retryAfter);
      sendProblem(response, new SubagentError(code, "Not now."));
    });
  refusing("/passes", "redis_unavailable");
  refusing("/timed", "rate_limited", "30");
  refusing("/stays", "not_found");
  const origin = await listenUntilEnd(createServer(app));
  const headersOf = async (path: string) => {
    const { headers } = await fetch(origin + path);
    return [headers.get("retry-after"), headers.get("cache-control")];
  };
  expect(await headersOf("/passes")).toEqual(["1", "no-store"]);
  expect(await headersOf("/timed")).toEqual(["30", "no-store"]);
  expect(await headersOf("/stays")).toEqual([null, "no-store"]);
});
