package machine

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A group is a control group hierarchy and this process's place in it. Version 2 has a
// single hierarchy; version 1 has one for each set of controllers. Both may be mounted
// at once, each with some of the controllers.
type group struct {
	v2          bool
	controllers []string // of version 1
	dirs        []string // the process's own first, then each visible parent
}

func (g group) has(controller string) bool {
	return g.v2 || slices.Contains(g.controllers, controller)
}

// A mount is a control group file system.
type mount struct {
	v2          bool
	root        string // the group mounted at dir: not / inside most containers
	dir         string
	controllers []string
}

// groups returns the visible hierarchies that this process is in.
func (t tree) groups() []group {
	mounts := t.mounts()
	var groups []group
	for line := range strings.Lines(t.text("proc/self/cgroup")) {
		// "4:memory:/user" in version 1, "0::/user" in version 2.
		number, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		names, own, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		g := group{v2: number == "0" && names == ""}
		if !g.v2 {
			g.controllers = strings.Split(names, ",")
		}
		for _, m := range mounts {
			if m.v2 == g.v2 && (m.v2 || slices.Contains(m.controllers, g.controllers[0])) {
				g.dirs = levels(m, own)
				groups = append(groups, g)
				break
			}
		}
	}
	return groups
}

// mounts reads /proc/self/mountinfo. A line is
//
//	36 35 0:32 /root /mount/point rw,relatime shared:9 - cgroup cgroup rw,memory
//
// with any number of fields before the dash.
func (t tree) mounts() []mount {
	var mounts []mount
	for line := range strings.Lines(t.text("proc/self/mountinfo")) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 3 || right[0] != "cgroup" && right[0] != "cgroup2" {
			continue
		}
		mounts = append(mounts, mount{
			v2:          right[0] == "cgroup2",
			root:        unescape(left[3]),
			dir:         unescape(left[4]),
			controllers: strings.Split(right[2], ","),
		})
	}
	// Mounts that show the most levels come first.
	slices.SortStableFunc(mounts, func(a, b mount) int { return len(a.root) - len(b.root) })
	return mounts
}

// unescape decodes mountinfo's octal escapes, such as \040 for a space.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// levels returns the directories of the group own and of its parents, as far up as m
// shows them. If own is not below m, as when a container's cgroup file system was
// mounted from outside its namespace, the mount itself is the best guess.
func levels(m mount, own string) []string {
	outside := strings.HasPrefix(own, "/..") // of the namespace; the parents have no name here
	own, root := path.Clean("/"+own), path.Clean("/"+m.root)
	below, ok := strings.CutPrefix(own, strings.TrimSuffix(root, "/"))
	if outside || !ok || below != "" && below[0] != '/' {
		below = ""
	}
	top := path.Clean("/" + m.dir)
	var dirs []string
	for dir := path.Join(top, below); ; dir = path.Dir(dir) {
		if name := dir[1:]; fs.ValidPath(name) {
			dirs = append(dirs, name)
		}
		if len(dir) <= len(top) {
			return dirs
		}
	}
}
