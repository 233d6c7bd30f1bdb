import { type Context, type ContextManager, context, ROOT_CONTEXT, trace } from "@opentelemetry/api";
import { afterEach, expect, test } from "vitest";
import { activeTraceparent, requestTraceparent } from "../../../src/shared/telemetry.ts";

afterEach(() => void context.disable());

/** Makes `active` tell the active context; `broken` is all else that it is asked for. */
function setContextManager(active: () => Context, broken: () => never): void {
  const manager: ContextManager = {
    active,
    with: broken,
    bind: broken,
    enable: () => manager,
    disable: () => manager,
  };
  context.setGlobalContextManager(manager);
}

test("a context manager of the application that throws leaves a caller without a traceparent, and ends no call", async () => {
  const broken = () => {
    throw new TypeError("the context manager is broken");
  };
  setContextManager(broken, broken);
  expect(() => context.active()).toThrow("the context manager is broken");
  expect(await activeTraceparent()).toBeUndefined();
});

test("a request belongs to the active span of its server, and without one to that of its header", async () => {
  const [ofServer, ofHeader] = ["a", "b"].map((digit) => `00-${digit.repeat(32)}-${digit.repeat(16)}-01`);
  expect(await requestTraceparent(ofHeader)).toEqual({ traceparent: ofHeader });
  const span = { traceId: "a".repeat(32), spanId: "a".repeat(16), traceFlags: 1 };
  setContextManager(
    () => trace.setSpanContext(ROOT_CONTEXT, span),
    () => {
      throw new TypeError("nothing else is asked for");
    },
  );
  expect(await requestTraceparent(ofHeader)).toEqual({ traceparent: ofServer });
});
