import { expect, test } from "vitest";
import {
  addressOfMember,
  deadlineMember,
  keysUnder,
  replyIdOf,
  wakeJobId,
} from "../../../../src/shared/protocol/keys.ts";
import { keyNames } from "../../../helpers/key-names.ts";

const agent = { tenant: "default", parentId: "planner-7", uid: "sa-0123456789abcdef01234567" };

/** The part of a key that decides its slot in a cluster. */
function hashTag(key: string): string {
  return /\{([^}]+)\}/.exec(key)?.[1] ?? key;
}

function namesOf(prefix: string): string[] {
  const keys = keysUnder(prefix);
  return [
    ...keyNames(keys.parent(agent), "{a}:{b}"),
    ...keyNames(keys.agent(agent), "{a}:{b}"),
    keys.deadlines,
    keys.hintGrace,
    keys.hints,
    keys.workers,
    keys.worker("w"),
    keys.paused,
    keys.limiters,
    keys.callbacks,
    keys.callbackLock,
    ...[keys.limiter, keys.limiterHolders, keys.limiterWaiting, keys.limiterResuming].map((name) =>
      name("w"),
    ),
    `${keys.bullPrefix}:${keys.wakeQueue}`,
  ];
}

test("no two names are the same, within an installation and between two", () => {
  const names = [...namesOf("saq"), ...namesOf("other")];
  expect(new Set(names).size).toBe(names.length);
});

test("the keys of a parent and of its agents share the tag of tenant and parent, whatever the ids contain", () => {
  const { parent, agent: agentKeys } = keysUnder();
  const odd = "{x}{default/other}";
  const names = [...keyNames(parent(agent), odd), ...keyNames(agentKeys(agent), odd)];
  expect(new Set(names.map(hashTag))).toEqual(new Set(["default/planner-7"]));
});

test("two parents, and two tenants with a parent of one name, never share a tag", () => {
  const { parent } = keysUnder();
  const tags = [
    { tenant: "a", parentId: "b.c" },
    { tenant: "a.b", parentId: "c" },
    { tenant: "b", parentId: "b.c" },
  ].map((address) => hashTag(parent(address).live));
  expect(new Set(tags).size).toBe(3);
});

test("what all workers share has the tag of the installation", () => {
  const { bullPrefix, deadlines, hintGrace, workers, worker, paused, limiters, ...keys } = keysUnder("mine");
  const limiter = "host/{other}/model";
  const ofLimiter = [
    keys.limiter(limiter),
    keys.limiterHolders(limiter),
    keys.limiterWaiting(limiter),
    keys.limiterResuming(limiter),
  ];
  const names = [bullPrefix, deadlines, hintGrace, workers, worker("w-1"), paused, limiters, ...ofLimiter];
  expect(new Set(names.map(hashTag))).toEqual(new Set(["mine"]));
});

test("a member of the deadline set leads back to its agent", () => {
  expect(addressOfMember(deadlineMember(agent))).toEqual(agent);
});

test.for(["", "a", "a/b", "a/b/", "/b/c", "a//c", "a/b/c/d"])(
  "a foreign member (%j) leads nowhere",
  (member) => {
    expect(addressOfMember(member)).toBeUndefined();
  },
);

test("ids of wakes and replies carry the uid and a number, and no colon, which BullMQ refuses", () => {
  expect(wakeJobId({ uid: agent.uid, wake: 3 })).toBe(`${agent.uid}.3`);
  expect(replyIdOf(agent.uid, 12)).toBe(`${agent.uid}.12`);
  expect(wakeJobId({ uid: agent.uid, wake: 3 })).not.toContain(":");
});

test("the key of a record ends in the agent's uid, and nothing else of it is the agent's: spawn.lua finds others by theirs", () => {
  const keys = keysUnder("saq");
  const other = { ...agent, uid: "sa-ffffffffffffffffffffffff" };
  const { record } = keys.agent(agent);
  expect(record.slice(0, -agent.uid.length) + other.uid).toBe(keys.agent(other).record);
});
