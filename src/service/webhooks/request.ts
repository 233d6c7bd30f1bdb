/** One webhook request: what it says, its signature after Standard Webhooks, and what its answer means. */
import { createHmac } from "node:crypto";
import { Agent } from "undici";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import type { ChannelEntry } from "../../shared/protocol/reply.ts";
import { clip } from "../../shared/protocol/text.ts";
import type { StoredWebhook } from "../../shared/redis/webhooks.ts";
import { lookupFor, type Reach, requireReachable } from "./address.ts";

/** What an answer means: `taken` (2xx), `gone` (410: stop pushing), `refused` (any other), or `failed`: there was none. */
export type PushAnswer = { status: "taken" } | { status: "gone" | "refused" | "failed"; problem: string };

/** Sends webhook requests. */
export interface WebhookSender {
  /** One attempt; never rejects. */
  send(webhook: StoredWebhook, entry: ChannelEntry): Promise<PushAnswer>;
  close(): Promise<void>;
}

const CONNECT_MS = 5_000;
/** From the begin of a request to the last byte of its answer: a receiver that sends a byte now and then gains no time by it. */
const ANSWER_MS = 15_000;
/** The status alone is of use: the rest is read so that the connection can serve the next request. */
const MOST_ANSWER_BYTES = 64 * 1_024;

/** A sender that reaches what `reach` allows. */
export function createSender(reach: Reach, clock: Clock): WebhookSender {
  const agent = new Agent({ connect: { timeout: CONNECT_MS, lookup: lookupFor(reach) } });
  return {
    async send({ url, secret }, entry) {
      const over = new AbortController();
      const timer = clock.timeout(ANSWER_MS, () => over.abort(tooSlow()));
      try {
        requireReachable(url, reach);
        const body = JSON.stringify({
          type: `sub_agent.${entry.kind}`,
          timestamp: entry.created_at,
          data: entry,
        });
        const { origin, pathname, search } = new URL(url);
        const headers = signedHeaders(secret, entry.reply_id, Math.floor(clock.now() / 1_000), body);
        const answer = await agent.request({
          origin,
          path: pathname + search,
          method: "POST",
          headers,
          body,
          signal: over.signal,
        });
        // What ends the body early, the receiver or one of the bounds, takes nothing from the status.
        await answer.body.dump({ limit: MOST_ANSWER_BYTES }).catch(() => {});
        return meaningOf(answer.statusCode);
      } catch (error) {
        return { status: "failed", problem: clip(messageOf(error), 200) };
      } finally {
        timer.cancel();
      }
    },
    close: () => agent.destroy(),
  };
}

function tooSlow(): SubagentError {
  return new SubagentError("timed_out", `The receiver has not answered within ${ANSWER_MS / 1_000} s.`);
}

/** A redirect is no ack: it would lead where nothing was checked. */
function meaningOf(status: number): PushAnswer {
  if (status >= 200 && status < 300) return { status: "taken" };
  if (status === 410) return { status: "gone", problem: "The receiver answered 410: it is gone for good." };
  return { status: "refused", problem: `The receiver answered ${status}.` };
}

/** The headers of Standard Webhooks; `seconds`: epoch seconds of this attempt. */
function signedHeaders(secret: string, id: string, seconds: number, body: string): Record<string, string> {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${seconds}.${body}`).digest("base64");
  return {
    "content-type": "application/json",
    "user-agent": "subagent-queue",
    "webhook-id": id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": `v1,${signature}`,
  };
}
