import { describe, expect, it } from "vitest";
import { estimateTokens, fingerprint } from "../../../src/offline/cache.ts";
import { CountTokensRequest } from "../../../src/offline/wire.ts";

const request = (change: Record<string, unknown> = {}) =>
  CountTokensRequest.parse({
    model: "m",
    system: "s",
    messages: [{ role: "user", content: "hi" }],
    ...change,
  });
const marked = { cache_control: { type: "ephemeral" } };

describe("fingerprint", () => {
  it("names a conversation by its system prompt and first user text, whatever follows", () => {
    const first = fingerprint(request());
    const later = fingerprint(
      request({
        messages: [
          { role: "user", content: "hi" },
          { role: "assistant", content: "yes" },
          { role: "user", content: "go on" },
        ],
      }),
    );
    expect(later.conversation).toBe(first.conversation);
    expect(later.requestHash).not.toBe(first.requestHash);
    expect([first.turn, later.turn]).toEqual([0, 1]);
    expect(fingerprint(request({ system: "t" })).conversation).not.toBe(first.conversation);
  });

  it("takes no notice of cache markers, and of the two ways to write a text", () => {
    const plain = fingerprint(request());
    const blocks = fingerprint(
      request({
        system: [{ type: "text", text: "s", ...marked }],
        messages: [{ role: "user", content: [{ type: "text", text: "hi", ...marked }] }],
      }),
    );
    expect(blocks.requestHash).toBe(plain.requestHash);
    expect(blocks.prefixes.map((prefix) => prefix.hash)).toEqual(plain.prefixes.map((prefix) => prefix.hash));
    expect(blocks.prefixes.map((prefix) => prefix.breakpoint)).toEqual([false, true, true]);
  });

  it("puts the breakpoint of the whole request behind its last message", () => {
    expect(fingerprint(request(marked)).prefixes.map((prefix) => prefix.breakpoint)).toEqual([
      false,
      false,
      true,
    ]);
  });

  it("counts a quarter of the UTF-8 bytes, rounded up", () => {
    expect([
      estimateTokens(""),
      estimateTokens("abcd"),
      estimateTokens("abcde"),
      estimateTokens("漢字"),
    ]).toEqual([0, 1, 2, 2]);
  });
});
