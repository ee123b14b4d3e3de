#!/usr/bin/env bash
# The packages for Python and Node, of a program and of a folder that scripts/libquern.sh filled:
#
#	scripts/bindings.sh PROGRAM FOLDER OUT [VERSION]
#
# writes OUT/quern-*.whl and OUT/quern-*-linux-*-npm.tgz. Neither pip nor npm takes anything from the network.
set -euo pipefail
cd "$(dirname "$0")/.."

program=$1
lib=$2
out=$3
mkdir -p "$out"
out=$(cd "$out" && pwd)
version=${4:-$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}
arch=${GOARCH:-$(go env GOARCH)}
# What both take: v1.2.0 is 1.2.0, and a commit without a tag is a version before all others.
if [[ $version =~ ^v([0-9]+\.[0-9]+\.[0-9]+)$ ]]; then
	python=${BASH_REMATCH[1]} node=${BASH_REMATCH[1]}
else
	python=0.0.0+${version//[^0-9A-Za-z]/.} node=0.0.0-${version//[^0-9A-Za-z]/-}
fi
case $arch in
amd64) cpu=x64 ;;
*) cpu=$arch ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cp -r contrib/python "$work/python"
mkdir "$work/python/bin"
cp "$program" "$work/python/bin/quern"
cp LICENSE "$work/python/"
cp "$lib"/libquern.so.* "$work/python/quern/"
rm -rf "$work/python/quern/__pycache__"
QUERN_VERSION=$python "${PYTHON:-python3}" -m pip wheel --quiet --no-deps --no-index --disable-pip-version-check -w "$out" "$work/python"

mkdir -p "$work/node/bin" "$work/node/lib"
cp contrib/node/{index.mjs,README.md} LICENSE "$work/node/"
cp "$program" "$work/node/bin/quern"
cp "$lib"/libquern.so.* "$work/node/lib/"
sed -e "s/\"version\": .*/\"version\": \"$node\",/" -e "s/\"x64\"/\"$cpu\"/" contrib/node/package.json >"$work/node/package.json"
npm pack --silent --pack-destination "$work" "$work/node" >/dev/null
mv "$work/quern-$node.tgz" "$out/quern-$version-linux-$arch-npm.tgz"
