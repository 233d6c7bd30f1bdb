/** One webhook request: its body, its signature as in Standard Webhooks, and the meaning of its answer. */
import { createHmac } from "node:crypto";
import { Agent } from "undici";
import type { Clock } from "../../shared/clock.ts";
import type { ResolveName } from "../../shared/dns.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import { networkProblem } from "../../shared/network-problem.ts";
import type { ChannelEntry } from "../../shared/protocol/reply.ts";
import { clip } from "../../shared/protocol/text.ts";
import type { StoredWebhook } from "../../shared/redis/webhooks.ts";
import { lookupFor, type Reach, requireReachable } from "./address.ts";

/**
 * The meaning of an answer: `taken` (2xx), `gone` (410: stop pushing), `refused` (any other status, or an entry that cannot
 * become a request), or `failed` (no answer).
 */
export type PushAnswer = { status: "taken" } | { status: "gone" | "refused" | "failed"; problem: string };

/** Sends webhook requests. */
export interface WebhookSender {
  /** Makes one attempt; never rejects. `atMs`: its time, epoch ms. */
  send(webhook: StoredWebhook, entry: ChannelEntry, atMs: number): Promise<PushAnswer>;
  close(): Promise<void>;
}

const CONNECT_MS = 5_000;
/** Timeout from the start of a request to the last byte of its answer; a byte in between does not extend it. */
const ANSWER_MS = 15_000;
/** Time for which an unused connection is kept, even if its receiver offers more: each takes a socket of this process. */
const KEEP_ALIVE_MS = 4_000;
/** Maximum bytes read of an answer. Only its status is used; the body is read so that the connection can be reused. */
const MOST_ANSWER_BYTES = 64 * 1_024;
const MOST_PROBLEM_CHARS = 200;

/** Creates a sender that reaches the addresses that `reach` allows; `resolve`: see {@link lookupFor}. */
export function createSender(reach: Reach, clock: Clock, resolve?: ResolveName): WebhookSender {
  const agent = new Agent({
    connect: { timeout: CONNECT_MS, lookup: lookupFor(reach, resolve) },
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAliveMaxTimeout: KEEP_ALIVE_MS,
  });
  return {
    async send({ url, secret }, entry, atMs) {
      const over = new AbortController();
      const timer = clock.timeout(ANSWER_MS, () => over.abort(tooSlow()));
      let isMade = false;
      try {
        const signed = signedRequest(secret, entry, Math.floor(atMs / 1_000));
        isMade = true;
        requireReachable(url, reach);
        const { origin, pathname, search } = new URL(url);
        const to = { origin, path: pathname + search, method: "POST" } as const;
        const answer = await agent.request({ ...to, ...signed, signal: over.signal });
        // If the receiver or a limit ends the body early, the status still counts.
        await answer.body.dump({ limit: MOST_ANSWER_BYTES }).catch(() => {});
        return meaningOf(answer.statusCode);
      } catch (error) {
        const problem = isMade ? problemAt(url, error) : messageOf(error);
        return { status: isMade ? "failed" : "refused", problem: clip(problem, MOST_PROBLEM_CHARS) };
      } finally {
        timer.cancel();
      }
    },
    close: () => agent.destroy(),
  };
}

/** Returns why a receiver did not answer. Its user reads it: the host that was called, and what happened. */
function problemAt(url: string, error: unknown): string {
  if (error instanceof SubagentError) return messageOf(error);
  return `No answer from ${new URL(url).host} (${networkProblem(error) ?? messageOf(error)}).`;
}

function tooSlow(): SubagentError {
  return new SubagentError("timed_out", `The receiver has not answered within ${ANSWER_MS / 1_000} s.`);
}

/** Returns the meaning of a status. A redirect is no ack: its target address was not checked. */
function meaningOf(status: number): PushAnswer {
  if (status >= 200 && status < 300) return { status: "taken" };
  if (status === 410) return { status: "gone", problem: "The receiver answered 410: it is gone for good." };
  return { status: "refused", problem: `The receiver answered ${status}.` };
}

/**
 * Returns body and headers as in Standard Webhooks; `seconds`: time of this attempt, epoch s. Throws if the entry cannot be
 * written as JSON.
 */
function signedRequest(secret: string, entry: ChannelEntry, seconds: number) {
  const body = JSON.stringify({ type: `sub_agent.${entry.kind}`, timestamp: entry.created_at, data: entry });
  const id = headerSafe(entry.reply_id);
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${seconds}.${body}`).digest("base64");
  const headers = {
    "content-type": "application/json",
    "user-agent": "subagent-queue",
    "webhook-id": id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": `v1,${signature}`,
  };
  return { body, headers };
}

/** Returns an id in a form allowed in a header: percent-encodes `%` and all characters other than visible ASCII. */
function headerSafe(id: string): string {
  return id.replace(/[^!-~]|%/gu, (character) =>
    Buffer.from(character).toString("hex").replace(/../g, "%$&"),
  );
}
