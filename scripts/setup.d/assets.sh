# What pages load, bundled from npm packages of the lock; and the demo image.

make_assets() {
    local stamp=node_modules/.tessera.stamp hash
    hash=$(stamp_of package.json package-lock.json .npmrc)
    if ! stamped "$stamp" "$hash"; then
        progress "installs npm packages from package-lock.json" npm ci --ignore-scripts ||
            fail "npm ci failed." "See the lines above; is the package registry reachable?"
        echo "$hash" >"$stamp"
    fi
    local sources
    mapfile -d '' -t sources < <(find static -path static/build -prune -o -type f -print0 | sort -z)
    hash=$(stamp_of package-lock.json package.json "${sources[@]}")
    if ! stamped static/build/.tessera.stamp "$hash"; then
        progress "bundles scripts and styles" npm run build || fail "npm run build failed." "See the lines above."
        echo "$hash" >static/build/.tessera.stamp
    fi
}

# make_image FOLDER: says itself what it does, and leaves an image that is up to date alone.
make_image() {
    mkdir -p "$1"
    .venv/bin/python -m scripts.demo_image "$1/demo.qcow2" || fail "The demo image could not be made." "See the line above."
}
