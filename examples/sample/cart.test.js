import { expect, test } from "vitest";
import { total } from "./cart.js";

test("a cart costs what its items cost", () => {
  expect(total([{ price: 2, count: 3 }])).toBe(6);
});
