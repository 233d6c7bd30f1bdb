/** The form of a webhook request: the whole address that was set, and the entry with its own time. */
import { createServer } from "node:http";
import { expect, test } from "vitest";
import { createSender } from "../../../../src/service/webhooks/request.ts";
import { OLDEST } from "../../../../src/shared/protocol/reply.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { handClock } from "../../../helpers/hand-clock.ts";
import { listenUntilEnd } from "../../../helpers/listen.ts";
import { sampleReply } from "../../cli/sample-reply.ts";

test("a request goes to the path and query of the webhook, and says when its entry was written, not when it is sent", async () => {
  const seen: unknown[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      const { type, timestamp } = JSON.parse(body);
      seen.push([request.method, request.url, type, timestamp]);
      response.end();
    });
  });
  const webhook = {
    v: "1" as const,
    url: `${await listenUntilEnd(server)}/hook?team=a%20b&n=1`,
    secret: "whsec_AAAA",
    created_at: "2026-11-10T00:00:00.000Z",
    failures: 0,
    after: OLDEST,
    newest: OLDEST,
  };
  const sender = createSender("any", handClock());
  closeAtEnd(() => sender.close());
  const entry = sampleReply();
  const sent = await sender.send(webhook, entry, Date.parse(entry.created_at) + 60_000);
  expect(sent).toEqual({ status: "taken" });
  expect(seen).toEqual([["POST", "/hook?team=a%20b&n=1", `sub_agent.${entry.kind}`, entry.created_at]]);
});
