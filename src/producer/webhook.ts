/** The webhook of a parent: the URL to which the API's processes push its replies. */
import { z } from "zod";
import { SubagentError } from "../shared/errors.ts";
import { stepsOf } from "../shared/redis/steps.ts";
import { createWebhooks, type WebhookReceipt, type WebhookView } from "../shared/redis/webhooks.ts";
import { readInput } from "./input.ts";
import { type ParentCall, type ParentContext, withCall } from "./parent-context.ts";
import type { SafeRepeat } from "./redis-call.ts";

const MOST_URL_CHARS = 2_048;

/** The input for setting a webhook: an `http` or `https` URL without user name and password. */
export const WebhookInput = z.strictObject({
  url: z
    .string()
    .max(MOST_URL_CHARS)
    .refine(isUsable, "write an address like https://example.com/hook, without a name and password"),
});
/** See {@link WebhookInput}. */
export type WebhookInput = z.infer<typeof WebhookInput>;

/** A parent's webhook; see `Parent.webhook`. */
export interface ParentWebhook {
  /** Sets the URL and returns a new secret, which is shown only once. `invalid_input`. */
  set(input: WebhookInput): Promise<WebhookReceipt>;
  /** Returns the webhook. `unknown_webhook`. */
  get(): Promise<WebhookView>;
  /** Removes the webhook; entries not pushed yet stay in the channel. `unknown_webhook`. */
  remove(): Promise<void>;
}

/** Creates the webhook calls of a parent. */
export function parentWebhook(context: ParentContext): ParentWebhook {
  return {
    async set(input) {
      const { url } = readInput(WebhookInput, input, "webhook");
      const repeat = { what: "the setting", key: { url } };
      return withCall(context, (call) => webhooksOf(call, repeat).set(call.parent, url));
    },
    get: () =>
      withCall(context, async (call) => {
        const { redis, keys } = call.client;
        const found = await call.read(() => createWebhooks(redis, keys).view(call.parent));
        if (found) return found;
        throw unknownWebhook(call);
      }),
    remove: () =>
      withCall(context, async (call) => {
        const key = { parent_id: call.parent.parentId };
        const repeat = { what: "the removing", key, over: "unknown_webhook" } as const;
        if (!(await webhooksOf(call, repeat).remove(call.parent))) throw unknownWebhook(call);
      }),
  };
}

function webhooksOf(call: ParentCall, repeat: SafeRepeat) {
  const { redis, keys } = call.client;
  return createWebhooks(redis, keys, stepsOf(call, repeat));
}

function unknownWebhook({ parent: { parentId } }: ParentCall): SubagentError {
  return new SubagentError(
    "unknown_webhook",
    `Parent "${parentId}" has no webhook: set one, or name another parent.`,
  );
}

function isUsable(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, hostname } = new URL(text);
  return /^https?:$/.test(protocol) && username === "" && password === "" && hostname !== "";
}
