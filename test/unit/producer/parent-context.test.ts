import { expect, test } from "vitest";
import { onCancel } from "../../../src/producer/parent-context.ts";

function scene() {
  const listeners = new Set<(reason: unknown) => void>();
  const onStop = (listener: (reason: unknown) => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  const signal = new AbortController();
  const reasons: unknown[] = [];
  const forget = onCancel({ onStop }, signal.signal, (reason) => void reasons.push(reason));
  return { listeners, signal, reasons, forget };
}

test("a wait hears of its signal and of its parent's stop, each with its reason", () => {
  const { listeners, signal, reasons } = scene();
  signal.abort("enough");
  for (const listener of listeners) listener("stopped");
  expect(reasons).toEqual(["enough", "stopped"]);
});

test("a wait that is over listens to neither its signal nor its parent's stop", () => {
  const { listeners, signal, reasons, forget } = scene();
  forget();
  signal.abort("enough");
  expect(listeners).toEqual(new Set());
  expect(reasons).toEqual([]);
});
