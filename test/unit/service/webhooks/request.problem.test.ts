/** Guarantee: a webhook's problem names the host that was called and what happened, in words and not in those of a library. */
import { createServer, type RequestListener } from "node:http";
import { expect, test } from "vitest";
import { createSender } from "../../../../src/service/webhooks/request.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { OLDEST } from "../../../../src/shared/protocol/reply.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { listenUntilEnd } from "../../../helpers/listen.ts";
import { sampleReply } from "../../cli/sample-reply.ts";

function send(url: string) {
  const sender = createSender("any", systemClock);
  closeAtEnd(() => sender.close());
  const created_at = "2026-11-10T00:00:00.000Z";
  const webhook = { v: "1" as const, url, secret: "whsec_AAAA", created_at, failures: 0 };
  return sender.send({ ...webhook, after: OLDEST, newest: OLDEST }, sampleReply(), Date.now());
}

/** Returns the host of a receiver that gets requests. */
async function receiver(answer: RequestListener): Promise<string> {
  return new URL(await listenUntilEnd(createServer(answer))).host;
}

/** Returns a port on which nothing listens. */
async function closedPort(): Promise<string> {
  const server = createServer();
  const { port } = new URL(await listenUntilEnd(server));
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test("nothing listens, at one address or at several of a name", async () => {
  const port = await closedPort();
  for (const host of [`127.0.0.1:${port}`, `localhost:${port}`])
    expect(await send(`http://user:password@${host}/hook?token=secret`)).toEqual({
      status: "failed",
      problem: `No answer from ${host} (connection refused).`,
    });
});

test("the receiver closes the connection, cuts it off, or has no name", async () => {
  const closing = await receiver((request) => void request.socket.end());
  const cutting = await receiver((request) => void request.socket.resetAndDestroy());
  for (const host of [closing, cutting])
    expect(await send(`http://${host}/hook`)).toEqual({
      status: "failed",
      problem: `No answer from ${host} (connection closed).`,
    });
  expect(await send("http://receiver.invalid/hook")).toEqual({
    status: "failed",
    problem: "No answer from receiver.invalid (unknown host).",
  });
});

test("what has no words of ours is told after the host in those of the library, cut off", async () => {
  const host = await receiver((request) => void request.socket.end("no HTTP\r\n\r\n"));
  const { problem } = (await send(`http://${host}/hook`)) as { problem: string };
  expect(problem).toMatch(new RegExp(`^No answer from ${host} \\(.*does not match the HTTP`));
  expect(problem.length).toBeLessThanOrEqual(200);
});
