/** The live page in a real browser: what it shows, that it shows it by itself, and that nothing of others becomes markup. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { createApiKeys } from "../../src/shared/redis/api-keys.ts";
import { whenAborted } from "../../src/shared/stop-signal.ts";
import { defineTool } from "../../src/worker/index.ts";
import { startApi, type TestApi } from "../helpers/api.ts";
import { browserOfThisFile, hasBrowser } from "../helpers/browser.ts";
import { latch } from "../helpers/latch.ts";
import { until } from "../helpers/until.ts";
import { openStage, type Stage } from "../stage/stage.ts";

const { openPage } = browserOfThisFile();

const HOSTILE = `<img src="x" onerror="document.title='taken'"><script>document.title='taken'</script>‮gpj.exe`;
/** Where pictures go, for people who look at them; unset: nowhere. */
const { SCREENSHOTS } = process.env;

/** `seen` waits as long as the test may take: what is looked at comes by itself. */
const seen = (page: Page, selector: string, text: string | RegExp) =>
  page.locator(selector).filter({ hasText: text }).first().waitFor();

async function picture(page: Page, name: string): Promise<void> {
  if (SCREENSHOTS === undefined) return;
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: true });
}

describe.skipIf(!hasBrowser)("the live page", () => {
  let stage: Stage;
  let api: TestApi;
  const letOn = latch();
  beforeAll(async () => {
    const text = (words: string) => ({ content: [{ type: "text" as const, text: words }] });
    stage = await openStage({
      scenario: [
        {
          match: { user: "ponder" },
          turns: [{ content: [{ type: "tool_use", name: "ponder", input: {} }] }, text("pondered at last")],
        },
        {
          match: { user: "ask" },
          turns: [
            {
              content: [
                { type: "tool_use", name: "ask_parent", input: { question: HOSTILE, default_answer: "no" } },
              ],
            },
            text("asked"),
          ],
        },
        { turns: [text(`quick: ${HOSTILE}`)], repeat: true },
      ],
    });
    const ponder = defineTool({
      name: "ponder",
      description: "Waits.",
      input: z.object({}),
      run: () => letOn.opened.then(() => "waited"),
    });
    await stage.startWorker({ tools: [ponder] });
    api = await startApi({ client: stage.client({ workspaceRoot: stage.workspaceRoot }) });
  });

  test("shows parents, their agents with turn, tokens, cost and tool, and replies, all by itself and all as text", async () => {
    const { page, misconduct } = await openPage();
    await page.goto(api.url);
    await seen(page, "#no-parents", "No parent has spawned");
    const parent = stage.parent("planner-7");
    await parent.spawn({ name: "Thinker" });
    await parent.send("thinker", "ponder");
    await page.getByRole("button", { name: /^planner-7/ }).click();
    await seen(page, "#agents li", /thinker\s*running\s*1\/20 turns · [\d,]+ tokens · \$0\s*ponder/);
    await parent.spawn({ name: "Asker" });
    await parent.send("asker", "ask");
    await seen(page, "#agents li", /asker\s*waiting[\s\S]*Asks: <img src="x"/);
    await parent.spawn({ name: "Quick One", keep_alive: true });
    await parent.send("quick_one", "quick");
    await seen(page, "#replies li", /quick_one\s*succeeded[\s\S]*quick: <img src="x" onerror/);
    await seen(page, "#replies li", /asker\s*question[\s\S]*<script>document/);
    await seen(page, "#parents li", /planner-7.*1 running · 1 waiting · 1 idle · \d+ unacked/);
    await page
      .locator("#agents li", { hasText: "quick_one" })
      .getByRole("button", { name: "Last text" })
      .click();
    await seen(page, "#agents .whole", "quick: <img");
    await picture(page, "wide");
    letOn.open();
    await seen(page, "#agents li", /thinker\s*succeeded\s*2\/20 turns · [\d,]+ tokens/);
    await seen(page, "#replies li", "pondered at last");
    expect(await page.title()).toBe("subagent-queue");
    expect(await page.locator("main img, main script").count()).toBe(0);
    expect(misconduct).toEqual({ complaints: [], foreign: [] });
  });

  test("comes back to the parent that its address names, and takes an address that names none", async () => {
    const { page, misconduct } = await openPage();
    await page.goto(`${api.url}/#parent=planner-7`);
    await seen(page, "#parent-title", "planner-7");
    await seen(page, "#replies li", "pondered at last");
    await page.goto(`${api.url}/#parent=${encodeURIComponent("../<b>")}`);
    await seen(page, "#parent-title", "Choose a parent");
    expect(misconduct.foreign).toEqual([]);
  });

  test("fits 400 pixels in the dark, and everything can be reached with the keyboard", async () => {
    const { page, misconduct } = await openPage(400, "dark");
    await page.goto(`${api.url}/#parent=planner-7`);
    await seen(page, "#replies li", "pondered at last");
    await picture(page, "narrow-dark");
    const expectToFit = async () => {
      const [room, needed, ground] = await page.evaluate<[number, number, string]>(
        "[document.documentElement.clientWidth, document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor]",
      );
      expect(needed).toBeLessThanOrEqual(room);
      expect(ground).toBe("rgb(13, 17, 23)");
    };
    await expectToFit();
    await page.locator("#parents button").focus();
    await page.keyboard.press("Enter");
    await seen(page, "#parent-title", "planner-7");
    await page.goto(`${api.url}/docs`);
    await expectToFit();
    await picture(page, "narrow-dark-docs");
    expect(misconduct).toEqual({ complaints: [], foreign: [] });
  });

  test("says why a run failed, and what a queued agent waits for", async () => {
    const house = await openStage({
      scenario: [
        { match: { user: "fail" }, turns: [{ error: { status: 400, message: "the prompt is too odd" } }] },
        { turns: [{ error: { status: 429, headers: { "retry-after": "600" } } }] },
      ],
    });
    await house.startWorker();
    const door = await startApi({ client: house.client() });
    const parent = house.parent("unlucky");
    for (const [name, text] of [
      ["failing", "fail"],
      ["limited", "go"],
      ["toolless", "go"],
    ] as const) {
      await parent.spawn({ name, ...(name === "toolless" && { skills: ["surgery"] }) });
      await parent.send(name, text);
    }
    const { page, misconduct } = await openPage();
    await page.goto(`${door.url}/#parent=unlucky`);
    await seen(page, "#replies li", /failing\s*failed[\s\S]*the prompt is too odd/);
    await seen(
      page,
      "#agents li",
      /limited\s*queued[\s\S]*Waits for 127\.0\.0\.1\S* \(rate_limited\), which is asked again at [\d:]{8} UTC/,
    );
    await seen(
      page,
      "#agents li",
      /toolless\s*waiting_for_tools[\s\S]*Waits for a worker that has skill:surgery/,
    );
    await picture(page, "waits");
    expect(misconduct).toEqual({ complaints: [], foreign: [] });
  });

  test("goes back to the oldest replies when those of a later page have been acked", async () => {
    const house = await openStage();
    const parent = house.parent("reader");
    const ids = Array.from({ length: 11 }, (_, n) => `agent_${n}`);
    for (const name of ids) {
      await parent.spawn({ name });
      await parent.destroy(name);
    }
    const door = await startApi({ client: house.client() });
    const { page } = await openPage();
    await page.goto(`${door.url}/#parent=reader`);
    await page.getByRole("button", { name: "Newer" }).click();
    await seen(page, "#replies li", "agent_10");
    expect(await page.locator("#replies li").count()).toBe(1);
    await parent.waitAny(["agent_10"]);
    await seen(page, "#replies li", "agent_0");
    expect(await page.locator("#replies li").count()).toBe(10);
  });

  test("says that the server does not answer, and is live again once it does", async () => {
    const { page } = await openPage();
    await page.clock.install();
    await page.goto(api.url);
    await seen(page, "#state", "live");
    await page.route("**/v1/**", () => {});
    const asked = page.waitForRequest("**/v1/parents?*");
    await page.clock.fastForward(2_000);
    await asked;
    await page.clock.fastForward(10_000);
    await seen(page, "#state", "The server does not answer");
    await page.unroute("**/v1/**");
    await page.clock.fastForward(2_000);
    await seen(page, "#state", "live");
  });

  test("says how old each reply is, as time passes", async () => {
    const { page } = await openPage();
    const parent = stage.parent("aged");
    await parent.spawn({ name: "Quick One" });
    await parent.send("quick_one", "quick");
    await page.clock.install();
    await page.goto(`${api.url}/#parent=aged`);
    await seen(page, "#replies li", /quick_one[\s\S]* · (just now|\d+ min ago)/);
    await page.clock.fastForward("02:00:00");
    await seen(page, "#replies li", /quick_one[\s\S]* · 2 h ago/);
  });

  test("follows the events behind one whose text has line separators of Unicode", async () => {
    const use = (name: string, input: Record<string, unknown>) => ({
      content: [{ type: "tool_use" as const, name, input }],
    });
    const question = { question: "This\u2028or\u2029that?", default_answer: "this" };
    const house = await openStage({
      scenario: [
        { match: { user: "ask" }, turns: [use("ask_parent", question)] },
        { turns: [use("dwell", {})] },
      ],
    });
    const dwell = defineTool({
      name: "dwell",
      description: "Waits.",
      input: z.object({}),
      run: (_input, { signal }) => whenAborted(signal).then(() => "waited"),
    });
    await house.startWorker({ tools: [dwell] });
    const door = await startApi({ client: house.client() });
    const { page, misconduct } = await openPage();
    await page.goto(`${door.url}/#parent=separated`);
    const parent = house.parent("separated");
    await parent.spawn({ name: "asker" });
    await parent.send("asker", "ask");
    await seen(page, "#agents li", /asker\s*waiting[\s\S]*Asks: This/);
    await parent.spawn({ name: "dweller" });
    await parent.send("dweller", "go");
    // Only the events name the tool at work.
    await seen(page, "#agents li", /dweller\s*running[\s\S]*dwell\s*$/);
    expect(misconduct.complaints).toEqual([]);
  });

  test("names a parent whose data cannot be read beside the others, with the reason", async () => {
    const { page, misconduct } = await openPage();
    await stage.parent("sound").spawn({ name: "idler" });
    await stage.parent("broken").spawn({ name: "idler" });
    const { live } = stage.keys.parent({ tenant: "default", parentId: "broken" });
    await stage.redis.del(live);
    await stage.redis.set(live, "of the wrong kind");
    await page.goto(api.url);
    await seen(page, "#parents li", /^broken\s*its data in Redis cannot be read \(WRONGTYPE .*\)$/);
    await seen(page, "#parents li", /^sound\s*1 idle · /);
    expect(misconduct).toEqual({ complaints: [], foreign: [] });
  });

  test("shows 10,000 parents in pages, and asks for one of them at a time", async () => {
    const crowd = await openStage();
    const members = Array.from({ length: 10_000 }, (_, n) => [n + 1, `parent-${n}`]).flat();
    await crowd.redis.zadd(crowd.keys.tenantParents("default"), ...members);
    const door = await startApi({ client: crowd.client() });
    const { page, misconduct } = await openPage();
    const asked: string[] = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.goto(door.url);
    await seen(page, "#parents li", "parent-9999");
    expect(await page.locator("#parents li").count()).toBe(20);
    await page.getByRole("button", { name: "Older" }).click();
    await seen(page, "#parents li", "parent-9979");
    expect(await page.locator("#parents li").count()).toBe(20);
    await page.getByRole("button", { name: "Newest" }).click();
    await seen(page, "#parents li", "parent-9999");
    for (const url of asked.filter((each) => each.includes("/v1/")))
      expect(url).toMatch(/\/v1\/parents\?limit=20&/);
    expect(misconduct).toEqual({ complaints: [], foreign: [] });
  });

  test("on a narrow screen goes to the parent that was chosen, which is below the list", async () => {
    const house = await openStage();
    for (let n = 0; n < 20; n += 1) await house.parent(`parent-${n}`).spawn({ name: `agent of ${n}` });
    const door = await startApi({ client: house.client() });
    const { page } = await openPage(400);
    await page.goto(door.url);
    await page.getByRole("button", { name: /^parent-19/ }).click();
    await seen(page, "#agents li", "agent_of_19");
    await until(async () => {
      const [top, height] = await page.evaluate<[number, number]>(
        "[document.querySelector('#agents li').getBoundingClientRect().top, innerHeight]",
      );
      return top > 0 && top < height;
    });
  });

  test("asks for a key where the installation has keys, keeps it in its tab, and shows that tenant alone", async () => {
    const house = await openStage();
    await house.parent("mine", { tenant: "acme" }).spawn({ name: "a" });
    await house.parent("theirs", { tenant: "other" }).spawn({ name: "b" });
    const keys = createApiKeys(house.redis, house.keys);
    const { token, key_id } = await keys.create({ tenant: "acme", name: "dashboard", scope: "read" });
    const door = await startApi({ client: house.client() });
    const { page, misconduct } = await openPage();
    await page.goto(door.url);
    const input = page.getByLabel("This installation has keys");
    await input.fill("saq_wrong");
    await page.getByRole("button", { name: "Show" }).click();
    await seen(page, "#refused", "unknown or revoked");
    await picture(page, "key");
    // No header can hold it, so the browser sends nothing.
    await input.fill("saq_…");
    await page.getByRole("button", { name: "Show" }).click();
    await seen(page, "#refused", "That is no key");
    await page.reload();
    await input.fill(token);
    await page.getByRole("button", { name: "Show" }).click();
    await seen(page, "#parents li", "mine");
    expect(await page.locator("#parents").textContent()).not.toContain("theirs");
    await page.reload();
    await seen(page, "#parents li", "mine");
    const kept = await page.evaluate("[location.href, document.cookie, JSON.stringify(localStorage)].join()");
    expect(kept).not.toContain(token);
    await keys.revoke(key_id);
    await seen(page, "#refused", "unknown or revoked");
    expect(await page.locator("#parents li").count()).toBe(0);
    expect(await page.evaluate("sessionStorage.length")).toBe(0);
    expect(misconduct.foreign).toEqual([]);
    for (const complaint of misconduct.complaints) expect(complaint).toMatch(/401/);
  });
});
