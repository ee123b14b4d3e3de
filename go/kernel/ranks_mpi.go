//go:build mpi

package kernel

// #include "quern.h"
import "C"

import (
	"errors"

	_ "github.com/quern-llm/quern/csrc/mpi"
)

// MPIRanks returns this process's place in its MPI job.
func MPIRanks() (*Ranks, error) {
	var c *C.struct_qn_ranks
	if C.qn_ranks_mpi(&c) != C.QN_OK {
		return nil, errors.New("MPI cannot be started, or not for threads that take turns (MPI_THREAD_SERIALIZED)")
	}
	return newRanks(c), nil
}
