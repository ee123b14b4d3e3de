package engine

// A SlotFile is what was written of a slot, or read back.
type SlotFile struct {
	Tokens int
	Bytes  int64
}
