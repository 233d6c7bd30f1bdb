import { expect, test } from "vitest";
import { keysUnder } from "../../../../src/shared/protocol/keys.ts";
import { createKeyTypes } from "../../../../src/shared/redis/key-types.ts";

const keys = keysUnder("saq");
const typeOf = createKeyTypes("saq", keys);
const parent = { tenant: "acme", parentId: "planner-7" };
const agent = { ...parent, uid: "sa-000000000000000000000001" };

/** What is no key: names that are a part of one, and channels. */
const NO_KEYS = ["bullPrefix", "wakeQueue", "intakeQueue", "hints", "webhookDoorbell"];
/** Keys without a hash tag, which no walk meets; jobs of the intake, which any program may call as it likes. */
const UNTYPED = ["requestRate", "intakeJob"];

test("every key of an installation has a type, so that a new one cannot be forgotten", () => {
  const names = Object.keys(keys).filter(
    (name) => ![...NO_KEYS, ...UNTYPED, "parent", "agent"].includes(name),
  );
  const spelled = {
    ...keys,
    fairTenant: keys.fairTenant("acme"),
    tenantParents: keys.tenantParents("acme"),
    wakeJob: keys.wakeJob(`${agent.uid}.1`),
    worker: keys.worker("host-1"),
    limiter: keys.limiter("anthropic/m"),
    limiterHolders: keys.limiterHolders("anthropic/m"),
    limiterWaiting: keys.limiterWaiting("anthropic/m"),
    limiterResuming: keys.limiterResuming("anthropic/m"),
    apiKeyUsed: keys.apiKeyUsed("0123456789abcdef"),
    budget: keys.budget("tenant/acme"),
    reservation: keys.reservation(`tenant/acme/${agent.uid}.1.1`),
  };
  const untyped = names.filter((name) => typeOf(String(Reflect.get(spelled, name))) === undefined);
  expect(untyped).toEqual([]);
});

test("keys that begin alike are told apart", () => {
  expect(typeOf(keys.fairPeriod)).toBe("string");
  expect(typeOf(keys.fairTenant("acme"))).toBe("zset");
  expect(typeOf(keys.limiters)).toBe("set");
  expect(typeOf(keys.limiter("x"))).toBe("hash");
  expect(typeOf(keys.workers)).toBe("set");
  expect(typeOf(keys.worker("x"))).toBe("string");
  expect(typeOf("{saq}:wakes:wait")).toBe("list");
  expect(typeOf("{saq}:intake:meta")).toBe("hash");
});

test("the keys of a parent and of an agent have their types", () => {
  expect(typeOf(keys.parent(parent).replies)).toBe("stream");
  expect(typeOf(keys.agent(agent).record)).toBe("hash");
  expect(typeOf(keys.agent(agent).inbox)).toBe("list");
  expect(typeOf(keys.agent(agent).message("m"))).toBe("string");
});

test("what was moved aside, what another prefix owns and what no version writes has none", () => {
  for (const key of [
    "{saq}:aside:workers:1767000000000",
    "saq:{acme/planner-7}:aside:live:1767000000000",
    "{saq2}:workers",
    "saq2:{acme/planner-7}:live",
    "{saq}:constructor",
    "{saq}:intake:any-job-of-another-program",
    "{saq}:wakes:repeat",
  ])
    expect(typeOf(key), key).toBeUndefined();
});
