/**
 * What a client knows of the profiles that are registered for parents. It remembers what it read last, so that a spawn reads
 * nothing first: the script compares versions, and a spawn under an older version is made again.
 */
import { SubagentError } from "../shared/errors.ts";
import { type ParentAddress, parentMember } from "../shared/protocol/keys.ts";
import { jsonIn } from "../shared/protocol/text.ts";
import type { AgentStore } from "../shared/redis/agent-store.ts";
import { ProfileInput, type RegisteredProfile, UNREGISTERED } from "./input.ts";
import type { RedisCall } from "./redis-call.ts";

/** What a client knows of registered profiles. */
export interface ProfileCache {
  /** As it was seen last; undefined: never. */
  known(parent: ParentAddress): RegisteredProfile | undefined;
  /** Remembers what the spawn script said. Throws `protocol_violation` for what a newer version registered. */
  learn(
    parent: ParentAddress,
    stored: { profile_version: number; content?: string | undefined },
  ): RegisteredProfile;
  /** Asks Redis. Rejects as the call does, and as {@link ProfileCache.learn} throws. */
  read(call: RedisCall, parent: ParentAddress): Promise<RegisteredProfile>;
}

/** So many parents are remembered; the oldest is forgotten first. */
const MOST_KNOWN = 10_000;

/** Remembers the profiles of one client's parents. */
export function knownProfiles(store: AgentStore): ProfileCache {
  const seen = new Map<string, RegisteredProfile>();
  const remember = (parent: ParentAddress, registered: RegisteredProfile) => {
    const [oldest] = seen.keys();
    if (oldest !== undefined && seen.size >= MOST_KNOWN) seen.delete(oldest);
    seen.set(parentMember(parent), registered);
    return registered;
  };
  const profiles: ProfileCache = {
    known: (parent) => seen.get(parentMember(parent)),
    learn: (parent, { profile_version, content }) =>
      remember(
        parent,
        content === undefined ? UNREGISTERED : { version: profile_version, profile: profileIn(content) },
      ),
    async read(call, parent) {
      const stored = await call.read(() => store.profile(parent));
      return stored ? profiles.learn(parent, stored) : remember(parent, UNREGISTERED);
    },
  };
  return profiles;
}

/** A profile that this version cannot read holds rules that it would not keep. */
function profileIn(content: string): RegisteredProfile["profile"] {
  const read = ProfileInput.safeParse(jsonIn(content));
  if (read.success) return read.data;
  throw new SubagentError(
    "protocol_violation",
    "The registered profile of this parent cannot be read: a newer version wrote it; upgrade this process, or register it again.",
  );
}
