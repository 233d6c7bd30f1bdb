import { type ContextManager, context } from "@opentelemetry/api";
import { afterEach, expect, test } from "vitest";
import { activeTraceparent } from "../../../src/shared/telemetry.ts";

afterEach(() => void context.disable());

test("a context manager of the application that throws leaves a caller without a traceparent, and ends no call", async () => {
  const broken = () => {
    throw new TypeError("the context manager is broken");
  };
  const manager: ContextManager = {
    active: broken,
    with: broken,
    bind: broken,
    enable: () => manager,
    disable: () => manager,
  };
  context.setGlobalContextManager(manager);
  expect(() => context.active()).toThrow("the context manager is broken");
  expect(await activeTraceparent()).toBeUndefined();
});
