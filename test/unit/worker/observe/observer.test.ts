/** Guarantee: every span that a run begins is ended in its process, whatever ends the run. */
import { trace } from "@opentelemetry/api";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import { telemetryApi } from "../../../../src/shared/telemetry.ts";
import { Observer } from "../../../../src/worker/observe/observer.ts";

const exporter = new InMemorySpanExporter();
beforeAll(() =>
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }),
  ),
);
afterAll(() => trace.disable());

test("the span of a call that an error breaks off ends with the run's, and is an error", async () => {
  const observer = new Observer(createLogger({ level: "silent" }));
  observer.traceWith(await telemetryApi());
  const address = { tenant: "default", parentId: "planner", uid: `sa-${"0".repeat(24)}` };
  const run = observer.observe({ ...address, agentId: "finder", name: "finder", run: 1, model: "offline-1" });
  run.callBegins(1, "offline-1");
  run.end({ status: "released", reason: "error" });
  expect(exporter.getFinishedSpans().map(({ name, attributes }) => [name, attributes["error.type"]])).toEqual(
    [
      ["chat offline-1", "aborted"],
      ["invoke_agent finder", undefined],
    ],
  );
});
