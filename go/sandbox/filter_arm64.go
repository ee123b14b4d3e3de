//go:build linux

package sandbox

// refusedHere are refused calls that newer architectures have under newer names only.
var refusedHere []int
