#!/usr/bin/env bash
# A package for Debian and Ubuntu, by dpkg-deb:
#
#	scripts/release/deb.sh build BINARY ARCH VERSION DOCS   writes dist/quern-VERSION-linux-ARCH.deb; DOCS has man/ and completions/
#	scripts/release/deb.sh check FILE                       installs, serves, upgrades, removes and purges it
#	scripts/release/deb.sh able                             whether this user and system can check one
#
# The same inputs give the same bytes; times are those of SOURCE_DATE_EPOCH.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=scripts/release/debian

# debian_version VERSION: what git describe says, in the order that dpkg has: v1.2-3-gabc is after v1.2, and what has no
# number is before all that have.
debian_version() {
	local v=${1#v}
	if [[ $v =~ ^[0-9] && $v == *.* ]]; then
		sed -E 's/-dirty$/+dirty/; s/-([0-9]+)-g/+\1.g/; s/-/~/g' <<<"$v"
	else
		printf '0~git%s.%s\n' "$(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%Y%m%d%H%M%S)" "${v//-/.}"
	fi
}

build() {
	[[ $3 =~ ^[A-Za-z0-9.+~_-]+$ ]] || { echo "deb: a version is $3, want letters, digits and . + ~ _ -" >&2; return 2; }
	local binary=$1 arch=$2 version=$3 docs=$4 root=build/release-deb out=dist/quern-$3-linux-$2.deb page
	rm -rf "$root" && mkdir -p "$root"/DEBIAN dist
	install -Dm 755 "$binary" "$root/usr/bin/quern"
	install -Dm 644 LICENSE "$root/usr/share/doc/quern/copyright"
	install -Dm 644 "$here/README.Debian" "$root/usr/share/doc/quern/README.Debian"
	install -d "$root/usr/share/man/man1" "$root/lib/systemd/system"
	gzip -9nc docs/changelog.md >"$root/usr/share/doc/quern/changelog.gz"
	for page in "$docs"/man/man1/*.1; do
		gzip -9nc "$page" >"$root/usr/share/man/man1/${page##*/}.gz"
	done
	install -Dm 644 "$docs/completions/quern.bash" "$root/usr/share/bash-completion/completions/quern"
	install -Dm 644 "$docs/completions/_quern" "$root/usr/share/zsh/vendor-completions/_quern"
	install -Dm 644 "$docs/completions/quern.fish" "$root/usr/share/fish/vendor_completions.d/quern.fish"
	# Its comment says what to do without a package.
	sed '/^#/d; s,/usr/local/bin/quern,/usr/bin/quern,' scripts/deploy/quern.service >"$root/lib/systemd/system/quern.service"
	sed '/^#/d' scripts/deploy/quern.socket >"$root/lib/systemd/system/quern.socket"
	install -m 755 "$here"/{postinst,prerm,postrm} "$root/DEBIAN/"
	sed "s/@VERSION@/$(debian_version "$version")/; s/@ARCH@/$arch/; s/@SIZE@/$(find "$root/usr" -type f -printf '%s\n' | awk '{ n += $1 } END { print int((n + 1023) / 1024) }')/" \
		"$here/control" >"$root/DEBIAN/control"
	(cd "$root" && find usr lib -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
	chmod -R u+rwX,go=rX "$root"
	dpkg-deb --root-owner-group -Zxz --build "$root" "$root.deb" >/dev/null
	mv "$root.deb" "$out"
	printf '%9d  %s\n' "$(stat -c %s "$out")" "$out"
	rm -rf "$root"
}

# in_copy FILE: runs what it reads in a copy of this machine's root, of which nothing stays, with FILE as /tmp/quern.deb.
in_copy() {
	# shellcheck disable=SC2016 # the inner shell's
	unshare --mount --pid --fork bash -euo pipefail -c '
		top=$(mktemp -d)
		trap "umount -Rl $top; rmdir $top" EXIT # lazily: what failed may have left a process behind
		mount -t tmpfs deb "$top"
		mkdir "$top"/{upper,work,root}
		mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root"
		mount -t tmpfs tmp "$top/root/tmp"
		mount -t proc proc "$top/root/proc"
		mount --bind /dev "$top/root/dev"
		cp "$1" "$top/root/tmp/quern.deb"
		chroot "$top/root" bash -euo pipefail -s' - "$1"
}

able() {
	[[ $(id -u) == 0 ]] && command -v dpkg-deb >/dev/null &&
		in_copy /etc/hostname <<<'[[ -c /dev/null && -r /proc/self/stat ]]' 2>/dev/null
}

# There is no systemd in the copy, so what the unit says is started by hand, as its user.
check() {
	in_copy "$1" <<'INSIDE'
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
fail() { echo "deb: $*" >&2; exit 1; }
dpkg --purge quern >/dev/null 2>&1 || true
rm -rf /etc/quern /srv/models /var/lib/quern /var/cache/quern
dpkg --install /tmp/quern.deb >/dev/null
quern version >/dev/null
[[ $(command -v quern) == /usr/bin/quern ]] || fail "quern is $(command -v quern)"
[[ $(stat -c '%U:%G %a' /etc/quern) == "root:quern 750" ]] || fail "/etc/quern is $(stat -c '%U:%G %a' /etc/quern)"
(cd / && md5sum --quiet --check /var/lib/dpkg/info/quern.md5sums) || fail "files differ from what the package says"
! command -v systemd-analyze >/dev/null || systemd-analyze verify /lib/systemd/system/quern.{service,socket} 2>&1 | (! grep -E 'quern\.(service|socket)')

# The service: its own command, by its own user, with the key that README.Debian makes.
echo deb-test-key >/etc/quern/keys
mkdir -p /run/keys /var/lib/quern /var/cache/quern
cp /etc/quern/keys /run/keys/keys
chown -R quern:quern /run/keys /var/lib/quern /var/cache/quern
command=$(sed -n '/^ExecStart=/,/[^\\]$/p' /lib/systemd/system/quern.service | tr -d '\\\n' | sed 's/^ExecStart=//')
setpriv --reuid quern --regid quern --init-groups --reset-env env CREDENTIALS_DIRECTORY=/run/keys bash -c "exec $command --host /tmp/quern.sock" &
server=$!
for _ in {1..120}; do
	! quern health --host /tmp/quern.sock >/dev/null 2>&1 || break
	kill -0 $server || fail "the server ended"
	sleep 0.25
done
quern health --host /tmp/quern.sock || fail "the server is not ready"
kill $server
wait $server || fail "the server ended with status $?"

# An upgrade keeps the keys; removal too; purging keeps nothing but models.
dpkg --install /tmp/quern.deb >/dev/null
[[ -s /etc/quern/keys ]] || fail "an upgrade lost the keys"
touch /srv/models/model.gguf
wanted=/etc/systemd/system/multi-user.target.wants/quern.service
mkdir -p "${wanted%/*}" && ln -sf /lib/systemd/system/quern.service "$wanted" # as systemctl enable does
dpkg --remove quern >/dev/null
[[ ! -e /usr/bin/quern && -s /etc/quern/keys ]] || fail "after removal there is a program, or are no keys"
dpkg --purge quern >/dev/null
left=$(ls -d /etc/quern /var/lib/quern /var/cache/quern 2>/dev/null || true)
[[ -z $left ]] || fail "purged, and there is $left"
[[ ! -L $wanted ]] || fail "what is purged is still enabled"
[[ -e /srv/models/model.gguf ]] || fail "purging took a model"
INSIDE
}

case ${1:-} in
build) shift && build "$@" ;;
check) shift && check "$@" ;;
able) able ;;
*) sed -n '2,8s/^#\t\{0,1\} \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
