/** One webhook request: what it says, its signature after Standard Webhooks, and what its answer means. */
import { createHmac } from "node:crypto";
import { Agent } from "undici";
import type { Clock } from "../../shared/clock.ts";
import { messageOf, SubagentError } from "../../shared/errors.ts";
import type { ChannelEntry } from "../../shared/protocol/reply.ts";
import { clip } from "../../shared/protocol/text.ts";
import type { StoredWebhook } from "../../shared/redis/webhooks.ts";
import { lookupFor, type Reach, requireReachable } from "./address.ts";

/**
 * What an answer means: `taken` (2xx), `gone` (410: stop pushing), `refused` (any other, and an entry of which no request can be
 * made), or `failed`: there was none.
 */
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
      let isMade = false;
      try {
        const signed = signedRequest(secret, entry, Math.floor(clock.now() / 1_000));
        isMade = true;
        requireReachable(url, reach);
        const { origin, pathname, search } = new URL(url);
        const to = { origin, path: pathname + search, method: "POST" } as const;
        const answer = await agent.request({ ...to, ...signed, signal: over.signal });
        // What ends the body early, the receiver or one of the bounds, takes nothing from the status.
        await answer.body.dump({ limit: MOST_ANSWER_BYTES }).catch(() => {});
        return meaningOf(answer.statusCode);
      } catch (error) {
        return { status: isMade ? "failed" : "refused", problem: clip(messageOf(error), 200) };
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

/** Body and headers after Standard Webhooks; `seconds`: epoch seconds of this attempt. Throws for an entry that is no JSON. */
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

/** An id as a header can carry it: what its provider spelled with other characters is percent-encoded, and so is `%`. */
function headerSafe(id: string): string {
  return id.replace(/[^!-~]|%/gu, (character) =>
    Buffer.from(character).toString("hex").replace(/../g, "%$&"),
  );
}
