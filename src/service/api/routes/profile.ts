/**
 * The profile of a parent over HTTP. Registering takes an admin key: what is registered bounds what keys of the scope `spawn`
 * may ask for.
 */
import { ProfileInput } from "../../../producer/input.ts";
import { type Route, route } from "../route.ts";
import { Profile, ProfileRegistered } from "../schema.ts";

const PARENT = "/v1/parents/{parent}";
const tag = "parents";

/** The rows. */
export const profileRoutes: readonly Route[] = [
  route({
    method: "put",
    path: PARENT,
    id: "registerProfile",
    tag,
    says: "Registers what the parent's agents inherit, through whichever door they are asked for; a spawn may only narrow it.",
    scope: "admin",
    body: ProfileInput,
    answers: {
      200: { says: "The profile and its version, one more where it differs.", schema: ProfileRegistered },
    },
    handle: async (call) => ({ status: 200, body: await call.parent().register(call.body) }),
  }),
  route({
    method: "get",
    path: PARENT,
    id: "getProfile",
    tag,
    says: "What is registered for the parent; version 0: nothing ever was.",
    scope: "read",
    answers: { 200: { says: "The profile.", schema: Profile } },
    handle: async (call) => ({ status: 200, body: await call.parent().profile() }),
  }),
];
