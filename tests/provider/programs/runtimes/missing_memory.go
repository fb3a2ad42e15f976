// A Go program whose library meets memory that is not there, while Go, which makes panics of faults, has its own: null pointers, and
// memory that was unmapped; other goroutines collect garbage and are interrupted by signals meanwhile.
package main

// int Java_MissingMemory_round(void*, void*);
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"syscall"
)

type box struct{ value int }

//go:noinline
func read(b *box) int { return b.value }

func panics(what func()) (did bool) {
	defer func() { did = recover() != nil }()
	what()
	return
}

func nullPointer() bool { return panics(func() { read(nil) }) }

func unmapped() bool {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	memory, err := syscall.Mmap(-1, 0, 65536, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil || syscall.Mprotect(memory, syscall.PROT_NONE) != nil {
		return false
	}
	did := panics(func() { memory[4096] = 1 })
	return syscall.Munmap(memory) == nil && did
}

func main() {
	var done atomic.Bool
	for i := 0; i < 2; i++ {
		go func() {
			for kept := 0; !done.Load(); {
				kept += len(make([]byte, 10000))
			}
		}()
	}
	rounds, _ := strconv.Atoi(os.Args[1])
	right, own := 0, 0
	for i := 0; i < rounds; i++ {
		right += int(C.Java_MissingMemory_round(nil, nil))
		if nullPointer() && unmapped() {
			own++
		}
		runtime.GC()
	}
	done.Store(true)
	fmt.Printf("%d of %d requests, %d of %d faults of its own\n", right, 3*rounds, own, rounds)
}
