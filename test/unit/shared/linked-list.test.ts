import { expect, test } from "vitest";
import { LinkedList } from "../../../src/shared/linked-list.ts";

test("values come in the order in which they were added, without those taken out", () => {
  const list = new LinkedList<string>();
  const [a, b, c] = ["a", "b", "c"].map((value) => list.add(value));
  expect([...list]).toEqual(["a", "b", "c"]);
  expect(list.first).toBe("a");
  b?.remove();
  expect([...list]).toEqual(["a", "c"]);
  list.add("d");
  a?.remove();
  expect([...list]).toEqual(["c", "d"]);
  c?.remove();
  list.clear();
  expect(list.isEmpty).toBe(true);
  expect(list.first).toBeUndefined();
});

test("a link that was taken out can be taken out again, and points to nothing", () => {
  const list = new LinkedList<string>();
  const first = list.add("first");
  list.add("second");
  first.remove();
  first.remove();
  expect([...list]).toEqual(["second"]);
  expect(first.next).toBe(first);
  expect(first.value).toBeUndefined();
});

test("whoever goes through the values may add and take out what it wants, and gets none of that", () => {
  const list = new LinkedList<number>();
  const links = [0, 1, 2, 3].map((value) => list.add(value));
  const seen: number[] = [];
  for (const value of list) {
    seen.push(value);
    links[value]?.remove();
    links[value + 1]?.remove();
    list.add(value + 10);
  }
  expect(seen).toEqual([0, 2]);
  expect([...list]).toEqual([10, 12]);
});
