// Builds the component: node build.mjs [FILE]

import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { componentize } from "@bytecodealliance/componentize-js";

const path = (name) => fileURLToPath(new URL(name, import.meta.url));

const { component } = await componentize({
  sourcePath: path("app.js"),
  witPath: path("../../../wit"),
  worldName: "reconciler",
  // What the contract has itself, or refuses.
  disableFeatures: ["random", "stdio", "clocks", "http", "fetch-event"],
});
await writeFile(process.argv[2] ?? path("key_counter.wasm"), component);
