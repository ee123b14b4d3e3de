package eval

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Files of logits are llama-perplexity's (--save-all-logits), little-endian:
//
//	"_logits_", then int32: tokens of a chunk, vocabulary, chunks
//	int32 tokens [chunks][tokens of a chunk]
//	rows [chunks][scored predictions], each of
//		float32 scale, float32 least
//		uint16 q [vocabulary, made even]
//
// The log-probability of token i is scale q[i] + least; at most 16 nats below the likeliest,
// which is what q 0 says of all that are less likely.
const (
	logitsMagic = "_logits_"
	logitsHead  = len(logitsMagic) + 3*4
	logitsRange = 16

	maxVocab = 1 << 24
	maxCtx   = 1 << 28
)

// leastSaved is the log-probability up to which a saved token does not count: its
// distance to the likeliest was cut.
const leastSaved = -logitsRange

// rowBytes is the size of a prediction in a file of logits.
func rowBytes(nVocab int) int64 { return 8 + 4*((int64(nVocab)+1)/2) }

// LogitsBytes is the size of a file of logits.
func LogitsBytes(c Chunks, chunks, nVocab int) uint64 {
	return uint64(logitsHead) + uint64(chunks)*(4*uint64(c.Ctx)+uint64(c.Scored())*uint64(rowBytes(nVocab)))
}

// A LogitsWriter writes a file of logits.
type LogitsWriter struct {
	w   *bufio.Writer
	row []byte
	n   int64
}

// NewLogitsWriter writes the head of a file that is to have the logits of the first chunks of ids.
func NewLogitsWriter(w io.Writer, ids []int32, c Chunks, chunks, nVocab int) (*LogitsWriter, error) {
	l := &LogitsWriter{w: bufio.NewWriterSize(w, 1<<20), row: make([]byte, rowBytes(nVocab))}
	head := []byte(logitsMagic)
	for _, v := range []int{c.Ctx, nVocab, chunks} {
		head = binary.LittleEndian.AppendUint32(head, uint32(v))
	}
	for _, id := range ids[:chunks*c.Ctx] {
		head = binary.LittleEndian.AppendUint32(head, uint32(id))
	}
	return l, l.write(head)
}

func (l *LogitsWriter) write(b []byte) error {
	n, err := l.w.Write(b)
	l.n += int64(n)
	return err
}

// Add appends the logits of a prediction.
func (l *LogitsWriter) Add(logits []float32) error {
	most, least := logits[0], logits[0]
	for _, v := range logits {
		most, least = max(most, v), min(least, v)
	}
	least = max(least, most-logitsRange)
	sum, err := logSum(logits)
	if err != nil {
		return err
	}
	scale := (most - least) / math.MaxUint16
	binary.LittleEndian.PutUint32(l.row, math.Float32bits(scale))
	binary.LittleEndian.PutUint32(l.row[4:], math.Float32bits(least-float32(sum)))
	for i, v := range logits {
		q := uint16(0)
		if scale > 0 && v > least {
			q = uint16(math.RoundToEven(float64((v - least) / scale)))
		}
		binary.LittleEndian.PutUint16(l.row[8+2*i:], q)
	}
	return l.write(l.row)
}

// Close writes what is buffered and returns the bytes of the file.
func (l *LogitsWriter) Close() (int64, error) { return l.n, l.w.Flush() }

// Logits is a file of logits: the predictions of a base for some tokens.
type Logits struct {
	Ctx    int     // tokens of a chunk
	NVocab int     // of the model
	IDs    []int32 // tokens of all chunks

	r   io.Reader
	row []byte
	log []float32
}

// ReadLogits reads the head of a file of so many bytes, which must be whole.
func ReadLogits(r io.Reader, size int64) (*Logits, error) {
	r = bufio.NewReaderSize(r, 1<<20)
	head := make([]byte, logitsHead)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:len(logitsMagic)]) != logitsMagic {
		return nil, fmt.Errorf("not a file of logits; want what --save-all-logits writes (it begins with %s)", logitsMagic)
	}
	field := func(i int) int { return int(int32(binary.LittleEndian.Uint32(head[len(logitsMagic)+4*i:]))) }
	l := &Logits{Ctx: field(0), NVocab: field(1), r: r}
	chunks := field(2)
	if l.Ctx < MinCtx || l.Ctx > maxCtx || l.NVocab < 1 || l.NVocab > maxVocab || chunks < 1 {
		return nil, fmt.Errorf("a damaged file of logits: %d chunks of %d tokens of a vocabulary of %d", chunks, l.Ctx, l.NVocab)
	}
	// The first bounds what is allocated, and the product of the numbers.
	want := LogitsBytes(Chunks{Ctx: l.Ctx}, chunks, l.NVocab)
	if int64(chunks) > size/4/int64(l.Ctx) || uint64(size) != want {
		return nil, fmt.Errorf("a file of logits that is not whole: %d bytes, %d chunks of %d tokens of a vocabulary of %d take %d; save them again",
			size, chunks, l.Ctx, l.NVocab, want)
	}
	l.IDs, l.row, l.log = make([]int32, chunks*l.Ctx), make([]byte, rowBytes(l.NVocab)), make([]float32, l.NVocab)
	if err := binary.Read(r, binary.LittleEndian, l.IDs); err != nil {
		return nil, err
	}
	for _, id := range l.IDs {
		if err := checkToken(id, l.NVocab); err != nil {
			return nil, fmt.Errorf("a damaged file of logits: %w", err)
		}
	}
	return l, nil
}

// next reads a prediction: log-probabilities, valid until the next call.
func (l *Logits) next() ([]float32, error) {
	if _, err := io.ReadFull(l.r, l.row); err != nil {
		return nil, fmt.Errorf("the file of logits: %w", err)
	}
	scale := math.Float32frombits(binary.LittleEndian.Uint32(l.row))
	least := math.Float32frombits(binary.LittleEndian.Uint32(l.row[4:]))
	if s := float64(scale) + float64(least); !(scale >= 0) || math.IsNaN(s) || math.IsInf(s, 0) {
		return nil, errors.New("a damaged file of logits: a prediction that is not finite")
	}
	for i := range l.log {
		l.log[i] = scale*float32(binary.LittleEndian.Uint16(l.row[8+2*i:])) + least
	}
	return l.log, nil
}

// Divergence evaluates the tokens of a file of logits and compares the predictions with
// those of the file. After each chunk, progress is called with what there is so far.
func (l *Logits) Divergence(ctx context.Context, m Model, c Chunks, progress func(chunk int, d *Divergence) error) (*Divergence, error) {
	c.Ctx, c.Max = l.Ctx, 0
	d := &Divergence{}
	err := c.each(ctx, m, l.IDs, len(l.IDs)/l.Ctx, func(logits []float32, id int32) error {
		base, err := l.next()
		if err != nil {
			return err
		}
		return d.Add(base, 0, leastSaved, logits, id)
	}, func(chunks int) error { return progress(chunks, d) })
	return d, err
}
