import { expect, test } from "vitest";
import { guardedLookup, isAddress, isPublic, parseRanges } from "../../../src/shared/address-range.ts";

test.each([
  "10/8",
  "172.16/12",
  "192.168/16",
  "010.0.0.0/8",
  "10",
  "1/0",
  "0xa.0.0.0/8",
  "10.0.0.0/",
  "10.0.0.0/08",
  "10.0.0.0/33",
  "10.0.0.0/8/8",
  "fd00::/129",
  "fd00::/8,10/8",
  "zzz",
])("ranges with a short, octal or malformed one are refused: %s", (text) => {
  expect(parseRanges(text)).toBeUndefined();
});

test.each([
  ["10.0.0.0/8", "10.255.0.1", "11.0.0.1"],
  ["192.168.7.9", "192.168.7.9", "192.168.7.10"],
  ["172.16.0.0/12, fd00::/8", "172.31.0.1", "172.32.0.1"],
  ["172.16.0.0/12, fd00::/8", "fd12::1", "fe80::1"],
  ["fd00::1", "fd00::1", "fd00::2"],
  ["10.0.0.0/8", "::ffff:10.0.0.1", "::ffff:11.0.0.1"],
])("the range %s has %s and not %s", (text, inside, outside) => {
  const mayReach = parseRanges(text);
  expect(mayReach?.(inside)).toBe(true);
  expect(mayReach?.(outside)).toBe(false);
});

test("a short or octal address is neither an address nor public, nor in any range", () => {
  for (const text of ["10", "8.8", "010.0.0.1", "0x8.8.8.8"]) {
    expect(isAddress(text), text).toBe(false);
    expect(isPublic(text), text).toBe(false);
    expect(parseRanges("0.0.0.0/0")?.(text), text).toBe(false);
  }
});

test.each(["::7f00:1", "::127.0.0.1", "100::1", "4000::1", "fec0::1"])(
  "%s is no part of the public IPv6 internet",
  (text) => {
    expect(isAddress(text)).toBe(true);
    expect(isPublic(text)).toBe(false);
    expect(isPublic("2606:4700::1111")).toBe(true);
  },
);

test("a name is refused for any of its addresses, wherever that stands", async () => {
  const resolve = async () => [
    { address: "93.184.216.34", family: 4 },
    { address: "10.0.0.1", family: 4 },
  ];
  const refused = (address: string) => new RangeError(`hidden: ${address}`);
  const found = (all: boolean) =>
    new Promise((settle) =>
      guardedLookup(isPublic, refused, resolve)("example.test", { all }, (error, address) =>
        settle(error?.message ?? address),
      ),
    );
  expect(await found(true)).toBe("hidden: 10.0.0.1");
  expect(await found(false)).toBe("hidden: 10.0.0.1");
});
