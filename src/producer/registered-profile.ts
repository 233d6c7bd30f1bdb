/**
 * The profile that is registered for a parent: its agents inherit it, whichever interface spawns them.
 *
 * 1. Redis stores it with a version that goes up by one when it changes; an agent keeps the profile of its spawn.
 * 2. It narrows: a parent's options or a spawn that ask for more are refused.
 */
import { isoTime } from "../shared/protocol/agent.ts";
import { addressOfParent, type ParentAddress } from "../shared/protocol/keys.ts";
import { TASK_LIMITS } from "../shared/protocol/limits.ts";
import { baseLimits, narrowed, requireTools } from "./inheritance.ts";
import {
  canonical,
  nullsLeftOut,
  ProfileInput,
  type RegisteredProfile,
  readInput,
  UNREGISTERED,
} from "./input.ts";
import { type ParentContext, withCall } from "./parent-context.ts";

/** The registered profile of a parent. `version` 0: none was registered. */
export interface ProfileView {
  parent_id: string;
  version: number;
  profile: ProfileInput;
  /** ISO 8601, Redis' clock. */
  registered_at?: string;
}

/** The receipt of a registration. `changed`: the profile differs from the one before, and the version is new. */
export interface ProfileReceipt extends ProfileView {
  changed: boolean;
}

/** Reads the registered profile of the parent from Redis, without the cache. For calls whose script checks no version. */
export function registeredProfile(context: ParentContext): Promise<RegisteredProfile> {
  return withCall(context, (call) => call.client.profiles.read(call, call.parent));
}

/** Registers a profile; see `Parent.register`. */
export async function registerProfile(context: ParentContext, input: unknown): Promise<ProfileReceipt> {
  const profile = readInput(nullsLeftOut(ProfileInput), input, "register");
  narrowed(baseLimits(TASK_LIMITS, context.operator, {}), profile.limits ?? {}, "register");
  requireTools("register", profile);
  const content = canonical(profile);
  return withCall(context, async ({ write, client, parent }) => {
    let isRepeated = false;
    const repeat = { what: "the registration", key: { parent_id: parent.parentId } };
    const answer = await write(repeat, (repeated) => {
      isRepeated = repeated;
      return client.store.register(addressOfParent(parent), { content });
    });
    const { profile_version: version, registered_at } = answer;
    client.profiles.learn(parent, { profile_version: version, content });
    return {
      ...viewOf(parent, { version, profile }, registered_at),
      changed: answer.status === "registered" || isRepeated,
    };
  });
}

/** Reads the registered profile; see `Parent.profile`. */
export function readProfile(context: ParentContext): Promise<ProfileView> {
  return withCall(context, async ({ read, client, parent }) => {
    const stored = await read(() => client.store.profile(parent));
    if (!stored) return viewOf(parent, UNREGISTERED);
    return viewOf(parent, client.profiles.learn(parent, stored), stored.registered_at);
  });
}

function viewOf(
  { parentId }: ParentAddress,
  { version, profile }: RegisteredProfile,
  registeredAtMs?: number,
): ProfileView {
  const registered_at = registeredAtMs === undefined ? undefined : isoTime(registeredAtMs);
  return { parent_id: parentId, version, profile, ...(registered_at !== undefined && { registered_at }) };
}
