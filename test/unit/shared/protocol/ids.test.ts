import { describe, expect, test } from "vitest";
import {
  AgentId,
  AgentName,
  newRequestKey,
  newUid,
  ParentId,
  RequestKey,
  slugOf,
  TenantId,
  traceparentIn,
  Uid,
} from "../../../../src/shared/protocol/ids.ts";

const accepts = (schema: { safeParse(value: unknown): { success: boolean } }, value: unknown) =>
  schema.safeParse(value).success;

describe("the slug of a name", () => {
  const slugs: [name: string, slug: string][] = [
    ["Data Collector", "data_collector"],
    ["  spaced  out  ", "spaced_out"],
    ["snake_case", "snake_case"],
    ["C++ / C# reviewer", "c_c_reviewer"],
    ["Crème Brûlée", "creme_brulee"],
    ["ﬁne print", "fine_print"],
    ["2nd opinion", "2nd_opinion"],
    ["../../x", "x"],
    ["con", "con"],
    ["__proto__", "proto"],
    ["數據收集員", "agent"],
    ["データ収集", "agent"],
    ["🦊🚀", "agent"],
    ["🦊 fox 🦊", "fox"],
    ["42", "agent"],
    ["", "agent"],
    ["\u0000\n\t", "agent"],
    ["Parent", "parent"],
  ];
  test.for(slugs)("of %j is %s", ([name, slug]) => {
    expect(slugOf(name)).toBe(slug);
  });

  test("of a 10 kB name is at most 48 characters and leaves room for a number", () => {
    const slug = slugOf("Long name ".repeat(1_000));
    expect(slug.length).toBeLessThanOrEqual(48);
    expect(slug).toMatch(/[a-z0-9]$/);
    expect(accepts(AgentId, `${slug}_123456789`)).toBe(true);
  });

  test("is an agent_id and its own slug, whatever the name", () => {
    for (const [name] of slugs) {
      const slug = slugOf(name);
      expect(accepts(AgentId, slug), name).toBe(true);
      expect(slugOf(slug), name).toBe(slug);
    }
  });
});

describe("an agent's name", () => {
  test.for([
    "Data Collector",
    "數據收集員",
    "🦊",
    "a",
    "x".repeat(100),
    "<script>alert(1)</script".replace("/", ""),
  ])("may be %j", (name) => {
    expect(AgentName.parse(name)).toBe(name);
  });
  test("is trimmed", () => {
    expect(AgentName.parse("  fox ")).toBe("fox");
  });
  test.for([
    "",
    "   ",
    "../../x",
    "a/b",
    "a\\b",
    "a\nb",
    "nul\u0000",
    "\u007f",
    "x".repeat(101),
    "x".repeat(10_240),
  ])("may not be %j", (name) => {
    expect(accepts(AgentName, name)).toBe(false);
  });
  test("is refused with a sentence that says what to write", () => {
    expect(AgentName.safeParse("").error?.issues[0]?.message).toContain("Data Collector");
    expect(AgentName.safeParse("x".repeat(101)).error?.issues[0]?.message).toBe("at most 100 characters");
  });
});

describe("a tenant or parent", () => {
  test.for(["default", "planner-7", "a", "A.b_c-9", "x".repeat(64)])("may be called %s", (id) => {
    expect(accepts(TenantId, id)).toBe(true);
    expect(accepts(ParentId, id)).toBe(true);
  });
  test.for(["", "-a", ".a", "_a", "a b", "a/b", "a{b}", "..", "ä", "x".repeat(65), "a\n"])(
    "may not be called %j",
    (id) => {
      expect(accepts(TenantId, id)).toBe(false);
      expect(accepts(ParentId, id)).toBe(false);
    },
  );
  test("is never a sub-agent: a uid may be no parent, but its look-alikes may", () => {
    expect(accepts(ParentId, newUid())).toBe(false);
    expect(ParentId.safeParse(newUid()).error?.issues[0]?.message).toContain("cannot spawn");
    expect(accepts(ParentId, "sa-team")).toBe(true);
  });
});

describe("an agent_id", () => {
  test.for(["data_collector", "data_collector_2", "agent", "2nd", "x".repeat(64)])("may be %s", (id) => {
    expect(accepts(AgentId, id)).toBe(true);
  });
  test.for(["", "_a", "#a", "A", "a-b", "a/b", "..", "x".repeat(65), "a ", "a\n"])("may not be %j", (id) => {
    expect(accepts(AgentId, id)).toBe(false);
  });
});

describe("a request key", () => {
  test.for(["a", "order:42/retry{1}", "~!", "x".repeat(128)])("may be %s", (key) => {
    expect(accepts(RequestKey, key)).toBe(true);
  });
  test.for(["", "a b", "a\n", "ä", "🦊", "x".repeat(129)])("may not be %j", (key) => {
    expect(accepts(RequestKey, key)).toBe(false);
  });
  test("that we make is one, and never the same twice", () => {
    const keys = Array.from({ length: 1_000 }, () => newRequestKey());
    expect(keys.every((key) => accepts(RequestKey, key))).toBe(true);
    expect(new Set(keys).size).toBe(1_000);
  });
});

describe("a uid", () => {
  test("carries 96 random bits and no name", () => {
    const uids = Array.from({ length: 1_000 }, () => newUid());
    expect(new Set(uids).size).toBe(1_000);
    expect(uids.every((uid) => accepts(Uid, uid))).toBe(true);
    // Each bit of each is drawn: over a thousand, none is always 0 or always 1.
    const bits = uids.map((uid) => BigInt(`0x${uid.slice(3)}`));
    expect(bits.reduce((both, each) => both & each)).toBe(0n);
    expect(bits.reduce((any, each) => any | each)).toBe(2n ** 96n - 1n);
  });
  test.for(["sa-", "sa-xyz", `sa-${"A".repeat(24)}`, `sa-${"a".repeat(25)}`, "planner-7"])(
    "is not %s",
    (uid) => {
      expect(accepts(Uid, uid)).toBe(false);
    },
  );
});

test("a traceparent header of a later version is read as version 00, and what W3C calls invalid as none", () => {
  const [trace, span] = ["ab".repeat(16), "cd".repeat(8)];
  const header = `00-${trace}-${span}-01`;
  expect(traceparentIn(header)).toBe(header);
  expect(traceparentIn(`cc-${trace}-${span}-01`)).toBe(header);
  expect(traceparentIn(`cc-${trace}-${span}-01-what-comes-later`)).toBe(header);
  for (const invalid of [
    ...[
      undefined,
      "",
      `${header}-more`,
      `ff-${trace}-${span}-01`,
      `cc-${trace}-${span}-01.more`,
      `${header}, ${header}`,
    ],
    ...[`00-${"0".repeat(32)}-${span}-01`, `00-${trace}-${"0".repeat(16)}-01`, header.toUpperCase()],
  ])
    expect(traceparentIn(invalid), invalid).toBeUndefined();
});
