import { expect, test } from "vitest";
import type { CommandContext } from "../../../../src/cli/command.ts";
import { createDisposables } from "../../../../src/cli/local/disposables.ts";
import { openIntake } from "../../../../src/cli/local/intake.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { loadConfig } from "../../../../src/shared/config.ts";
import { createLogger } from "../../../../src/shared/logger.ts";
import { until } from "../../../helpers/until.ts";

test("a command that stops while its intake starts does not say that the intake could not start", async () => {
  const lines: string[] = [];
  const logger = createLogger({ level: "warn", destination: { write: (line) => void lines.push(line) } });
  const context: Partial<CommandContext> = { config: loadConfig({}), clock: systemClock, logger };
  const disposables = createDisposables();
  openIntake(context as CommandContext, "redis://127.0.0.1:1", "offline-1", disposables);
  await until(() => lines.length > 0);
  await disposables.close();
  await new Promise((resolve) => setImmediate(resolve));
  expect(lines.join("")).toContain("ECONNREFUSED");
  expect(lines.join("")).not.toContain("The intake could not start");
});
