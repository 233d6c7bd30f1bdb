/** The board in a real browser: it works under its content security policy and talks to nobody but loopback. */
import { createServer } from "node:http";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { createBoard } from "../../src/service/board/board.ts";
import { browserOfThisFile, hasBrowser } from "../helpers/browser.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { listenUntilEnd } from "../helpers/listen.ts";
import { redisUrl, startPrivateRedis, uniquePrefix } from "../helpers/redis.ts";
import { SECRET, stageWakes, type WakeScene } from "../helpers/wake-scene.ts";

const { openPage } = browserOfThisFile();

describe.skipIf(!hasBrowser)("the board in a browser", () => {
  let url: string;
  let scene: WakeScene;
  beforeAll(async () => {
    const prefix = uniquePrefix();
    const board = createBoard({ redisUrl: redisUrl(), prefix });
    closeAtEnd(() => board.stop());
    await board.start();
    url = board.url;
    scene = await stageWakes(prefix);
  });

  test("shows the queue, each state and a failed job, without a complaint and without leaving loopback", async () => {
    const { page, misconduct } = await openPage();
    await page.goto(url);
    await page.getByRole("link", { name: "wakes" }).first().click();
    await shows(page, "report_writer");
    const jobsByState = {
      Active: "report_writer",
      Waiting: "translator",
      Completed: "code_reviewer",
      Failed: "web_researcher",
      Delayed: "night_watch",
    };
    for (const [state, agent] of Object.entries(jobsByState)) {
      await page.getByRole("link", { name: new RegExp(`^${state}`, "i") }).click();
      await shows(page, agent);
    }
    await page.goto(`${url}/queue/wakes/${scene.failed}`);
    await shows(page, "The run ended as failed: refusal.");
    expect(await page.content()).not.toContain(SECRET);
    expect(misconduct).toEqual({ complaints: [], foreign: [] });
  });

  test("offers nothing that changes a queue", async () => {
    const { page, misconduct } = await openPage();
    for (const path of ["/queue/wakes", "/queue/wakes?status=failed", `/queue/wakes/${scene.failed}`]) {
      await page.goto(url + path);
      await shows(page, "web_researcher");
      const labels = await page
        .getByRole("button")
        .evaluateAll((buttons) =>
          buttons.map((button) => `${button.getAttribute("title")} ${button.textContent}`),
        );
      expect(labels.length, path).toBeGreaterThan(0);
      expect(labels.join("\n"), path).not.toMatch(
        /retry|clean|remove|promote|pause|resume|empty|obliterate|add job/i,
      );
    }
    expect(misconduct.foreign).toEqual([]);
  });

  test("says that Redis does not answer", async () => {
    const server = await startPrivateRedis();
    const board = createBoard({ redisUrl: server.url });
    closeAtEnd(() => board.stop());
    await board.start();
    await server.kill("SIGKILL");
    const { page } = await openPage();
    await page.goto(board.url);
    await shows(page, "Redis does not answer");
  });

  test("can be neither fetched nor framed by another local page", async () => {
    const foreign = await startForeignPage(`<iframe src="${url}"></iframe>`);
    const { page } = await openPage();
    await page.goto(foreign);
    const fetched = await page.evaluate(
      (target) =>
        fetch(target, { mode: "no-cors" }).then(
          () => "answered",
          () => "refused",
        ),
      `${url}/api/queues`,
    );
    expect(fetched).toBe("refused");
    const frame = page.frames()[1];
    expect(frame?.url()).toBe("chrome-error://chromewebdata/");
  });
});

/** Another server on loopback, with one page. Resolves with its address. */
async function startForeignPage(html: string): Promise<string> {
  const server = createServer((_request, response) => response.end(`<!doctype html>${html}`));
  return `${await listenUntilEnd(server)}/`;
}

async function shows(page: Page, text: string): Promise<void> {
  await page.getByText(text).first().waitFor({ state: "visible", timeout: 120_000 });
}
