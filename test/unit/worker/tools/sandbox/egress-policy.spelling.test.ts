/** Guarantee: a listed IPv6 address is the one that URLs name, however the operator spells it. */
import { expect, it } from "vitest";
import { parseEgress } from "../../../../../src/worker/tools/sandbox/egress-policy.ts";

it("an address with needless zeros, or with an IPv4 address in it, is reached by its URL", () => {
  const policy = parseEgress("[2606:4700:0:0::0001]:8443,[::FFFF:10.1.2.3]", "10.0.0.0/8");
  if ("problem" in policy) throw new TypeError(policy.problem);
  const hostOf = (url: string) => new URL(url).hostname.slice(1, -1);
  expect(policy.isListed(hostOf("http://[2606:4700:0:0::0001]:8443/"), 8443)).toBe(true);
  expect(policy.isListed(hostOf("http://[::ffff:10.1.2.3]/"), 80)).toBe(true);
  expect(policy.isListed("2606:4700::2", 8443)).toBe(false);
  expect(policy.hosts).toEqual(["[2606:4700:0:0::0001]:8443", "[::ffff:10.1.2.3]"]);
});
