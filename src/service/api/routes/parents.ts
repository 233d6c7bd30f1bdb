/**
 * The routes of parents: their list from the tenant's index, the profile of one, and its webhook. Registering a profile needs
 * an admin key, because the profile limits the spawns of keys with the scope `spawn`.
 */
import { z } from "zod";
import { ProfileInput } from "../../../producer/input.ts";
import { WebhookInput } from "../../../producer/webhook.ts";
import { requireReachable } from "../../webhooks/address.ts";
import { readParentPage } from "../parents.ts";
import { type Route, route } from "../route.ts";
import { ParentList, Profile, ProfileRegistered, pageLimit, Webhook, WebhookSet } from "../schema.ts";

const ParentQuery = z.strictObject({
  limit: pageLimit("parents"),
  after: z
    .string()
    .regex(/^\d{1,9}$/, "a cursor of an earlier answer, or 0")
    .default("0")
    .describe("A cursor of an earlier answer; default: from the last active one."),
});

const PARENT = "/v1/parents/{parent}";
const WEBHOOK = `${PARENT}/webhook`;

/** The rows of these routes. */
export const parentRoutes: readonly Route[] = [
  route({
    method: "get",
    path: "/v1/parents",
    id: "listParents",
    tag: "parents",
    says: "Every parent that has spawned, the last active first, with its live agents, its unacked replies and its day.",
    scope: "read",
    query: ParentQuery,
    answers: { 200: { says: "The parents.", schema: ParentList } },
    async handle({ open, principal: { tenant }, query: { limit, after } }) {
      const { parents, unreadable, waits, next } = await readParentPage(
        await open(),
        tenant,
        Number(after),
        limit,
      );
      const cursor = next === undefined ? undefined : String(next);
      return { status: 200, body: { parents, waits, ...(unreadable.length > 0 && { unreadable }), cursor } };
    },
  }),
  route({
    method: "put",
    path: PARENT,
    id: "registerProfile",
    tag: "parents",
    says: "Registers what the parent's agents inherit, whichever door spawns them; a spawn may only narrow it.",
    scope: "admin",
    body: ProfileInput,
    answers: {
      200: { says: "The profile and its version, one higher if it changed.", schema: ProfileRegistered },
    },
    handle: async (call) => ({ status: 200, body: await call.parent().register(call.body) }),
  }),
  route({
    method: "get",
    path: PARENT,
    id: "getProfile",
    tag: "parents",
    says: "The parent's registered profile; version 0 if there never was one.",
    scope: "read",
    answers: { 200: { says: "The profile.", schema: Profile } },
    handle: async (call) => ({ status: 200, body: await call.parent().profile() }),
  }),
  route({
    method: "put",
    path: WEBHOOK,
    id: "setWebhook",
    tag: "webhooks",
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
    path: WEBHOOK,
    id: "getWebhook",
    tag: "webhooks",
    says: "The webhook of the parent, and the state of its pushes.",
    scope: "read",
    answers: { 200: { says: "The webhook.", schema: Webhook } },
    handle: async (call) => ({ status: 200, body: await call.parent().webhook.get() }),
  }),
  route({
    method: "delete",
    path: WEBHOOK,
    id: "removeWebhook",
    tag: "webhooks",
    says: "Removes the webhook; entries that were not pushed stay in the channel.",
    scope: "spawn",
    answers: { 204: { says: "It is gone." } },
    async handle(call) {
      await call.parent().webhook.remove();
      call.response.status(204).end();
      return "streamed";
    },
  }),
];
