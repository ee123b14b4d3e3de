package engine

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/kvcache"
)

// A chain is hashes of the prefixes of a text at block boundaries; each identifies everything that determines
// the state there. The first is that of the empty prefix.
type chain []diskcache.Key

// root hashes what determines the state of every text: the model, as in a slot file, with the size and the
// modification time of its files, since files are not hashed in full; and the numeric profile.
func (e *Engine) root(profile string) diskcache.Key {
	h := sha256.New()
	h.Write(e.fingerprint())
	fmt.Fprintf(h, "%q\n", profile)
	for _, v := range e.file.Version() {
		fmt.Fprintln(h, v)
	}
	return diskcache.Key(h.Sum(nil))
}

// newChain returns the chain of a text in a namespace.
func (m *mediaIDs) newChain(root diskcache.Key, namespace string, ids []int32) chain {
	c := make(chain, 1, len(ids)/kvcache.BlockTokens+1)
	c[0] = sha256.Sum256(append(root[:], namespace...))
	for len(ids) >= kvcache.BlockTokens {
		c = append(c, m.next(c[len(c)-1], 0, ids[:kvcache.BlockTokens]))
		ids = ids[kvcache.BlockTokens:]
	}
	return c
}

// next hashes a key, a tag and the tokens that follow. Tokens of media have the hash of these.
func (m *mediaIDs) next(k diskcache.Key, tag byte, ids []int32) diskcache.Key {
	var b [len(diskcache.Key{}) + 1 + 4*kvcache.BlockTokens]byte
	n := append(append(b[:0], k[:]...), tag)
	for _, id := range ids {
		if n = binary.LittleEndian.AppendUint32(n, uint32(max(id, -1))); id < 0 {
			hash, ok := m.hash(id)
			if !ok { // it was forgotten with its text: the page is found by nobody
				_, _ = rand.Read(hash[:])
			}
			n = append(n, hash[:]...)
		}
	}
	return sha256.Sum256(n)
}

// page returns the key of a part's page for the tokens of a block.
func (m *mediaIDs) page(c chain, part, from int, ids []int32) diskcache.Key {
	return m.next(c[from/kvcache.BlockTokens], byte(part+1), ids)
}
