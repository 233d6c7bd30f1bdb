/** The webhook of a parent: where its replies are pushed. */
import { WebhookInput } from "../../../producer/webhook.ts";
import { requireReachable } from "../../webhooks/address.ts";
import { type Route, route } from "../route.ts";
import { Webhook, WebhookSet } from "../schema.ts";

const PATH = "/v1/parents/{parent}/webhook";
const tag = "webhooks";

/** The rows. */
export const webhookRoutes: readonly Route[] = [
  route({
    method: "put",
    path: PATH,
    id: "setWebhook",
    tag,
    says: "Has replies, questions and messages pushed to a URL, signed after Standard Webhooks; a 2xx answer acks them.",
    scope: "spawn",
    body: WebhookInput,
    answers: { 200: { says: "The webhook and its new secret, shown once.", schema: WebhookSet } },
    async handle(call) {
      requireReachable(call.body.url, call.webhookReach);
      return { status: 200, body: await call.parent().webhook.set(call.body) };
    },
  }),
  route({
    method: "get",
    path: PATH,
    id: "getWebhook",
    tag,
    says: "Where replies are pushed, and how that goes.",
    scope: "read",
    answers: { 200: { says: "The webhook.", schema: Webhook } },
    handle: async (call) => ({ status: 200, body: await call.parent().webhook.get() }),
  }),
  route({
    method: "delete",
    path: PATH,
    id: "removeWebhook",
    tag,
    says: "Ends the pushing; what was not pushed yet stays in the channel.",
    scope: "spawn",
    answers: { 204: { says: "It is gone." } },
    async handle(call) {
      await call.parent().webhook.remove();
      call.response.status(204).end();
      return "streamed";
    },
  }),
];
