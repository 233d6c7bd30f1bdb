import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["**/node_modules/**", "test/**/fixtures/**"],
    pool: "forks",
    globalSetup: ["test/setup/redis-server.ts"],
    setupFiles: ["test/setup/leak-check.ts"],
    reporters: ["default", "./test/setup/closing-line.ts"],
    testTimeout: 20_000,
    hookTimeout: 30_000,
  },
});
