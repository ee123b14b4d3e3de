package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/quant"
)

// A quantizeMethod is how codes are found, and the text that GPTQ reads for it.
type quantizeMethod struct {
	name   string
	file   string
	chunks int
	memory uint64
	flags  *pflag.FlagSet
}

// calibrationMemory is what sums of products take at most by default.
const calibrationMemory = 4e9

func (m *quantizeMethod) define(fs *pflag.FlagSet) {
	m.flags = fs
	choiceVar(fs, &m.name, "method", "fast", quant.Methods(), "quantization method: fast is byte-identical to llama-quantize; search optimizes scales and codes together for a lower error; gptq also compensates errors between the columns of a row, and needs --calibration")
	fs.StringVar(&m.file, "calibration", "", "calibration `TEXT` for --method gptq, read in chunks of --ctx-size tokens")
	intVar(fs, &m.chunks, "calibration-chunks", "", 128, -1, 1<<30, "chunks of it to read; 0 or -1 is all")
	m.memory = calibrationMemory
	bytesVar(fs, &m.memory, "calibration-memory", "memory for the calibration sums, a `SIZE` such as 16G; with less, the text is read more often, or errors are compensated within fewer columns")
	fs.Lookup("calibration-memory").DefValue = "4G"
}

// method returns the method that was given.
func (m *quantizeMethod) method() quant.Method {
	method, _ := quant.ParseMethod(m.name)
	return method
}

// check refuses flags that contradict each other.
func (m *quantizeMethod) check() error {
	if m.method() == quant.GPTQ {
		if m.file == "" {
			return usagef("--method gptq reads a text of the kind that the model is for; give one with --calibration FILE")
		}
		return nil
	}
	for _, flag := range []string{"calibration", "calibration-chunks", "calibration-memory"} {
		if m.flags.Changed(flag) {
			return usagef("--%s: a text is read for --method gptq alone", flag)
		}
	}
	return nil
}

// A calibration is one, with the model that reads the text.
type calibration struct {
	*quant.Calibration
	tap *textTap
}

// calibrate opens the model for a job and has it answer which inputs its tensors have. The caller closes it.
func (m *quantizeMethod) calibrate(cmd *cobra.Command, job *quant.Job, in string, ctx int) (*calibration, error) {
	tap, err := newTextTap(cmd, m, in, ctx, job.Threads)
	if err != nil {
		return nil, err
	}
	c, err := quant.NewCalibration(job, tap, tap.device.Budget(), m.memory)
	if err != nil {
		tap.close()
		return nil, err
	}
	job.Hessian = func(ctx context.Context, t *gguf.Tensor) (*quant.Hessian, error) {
		h, err := c.Hessian(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("--calibration %s: %w", m.file, err)
		}
		return h, nil
	}
	job.Set = append(job.Set, gguf.KV{Key: "quantize.calibration.file", Value: m.file},
		gguf.KV{Key: "quantize.calibration.chunks_count", Value: uint32(tap.text.chunks)})
	return &calibration{c, tap}, nil
}

func (c *calibration) close() {
	c.Close()
	c.tap.close()
}
