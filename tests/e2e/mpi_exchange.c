// An MPI program of the usual kind: messages of many sizes between all ranks, collectives, one-sided access. Every byte
// that arrives is checked. Prints "N ranks: all right" and ends with 0, or prints the error and aborts.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBytesMax = 1 << 20, kRounds = 3 };

static int rank, ranks;

static unsigned char byte_of(int from, int to, int round, size_t at) {
  return (unsigned char)(from * 31 + to * 17 + round * 7 + at * 3 + (at >> 8));
}

static void fail(const char* what, int peer, size_t at) {
  fprintf(stderr, "rank %d: %s of rank %d is wrong at %zu\n", rank, what, peer, at);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(const unsigned char* bytes, size_t count, int from, int round, const char* what) {
  for (size_t at = 0; at < count; ++at) {
    if (bytes[at] != byte_of(from, rank, round, at)) fail(what, from, at);
  }
}

static void fill(unsigned char* bytes, size_t count, int to, int round) {
  for (size_t at = 0; at < count; ++at) bytes[at] = byte_of(rank, to, round, at);
}

// Each to each at once: small ones use the eager protocol, large ones rendezvous and RDMA.
static void messages(int count, int round) {
  unsigned char* in = malloc((size_t)count * (size_t)ranks);
  unsigned char* out = malloc((size_t)count * (size_t)ranks);
  MPI_Request* requests = malloc(sizeof(MPI_Request) * 2 * (size_t)ranks);
  for (int peer = 0; peer < ranks; ++peer) {
    fill(out + (size_t)peer * count, count, peer, round);
    MPI_Irecv(in + (size_t)peer * count, count, MPI_BYTE, peer, round, MPI_COMM_WORLD, &requests[peer]);
  }
  for (int peer = 0; peer < ranks; ++peer) {
    MPI_Isend(out + (size_t)peer * count, count, MPI_BYTE, peer, round, MPI_COMM_WORLD, &requests[ranks + peer]);
  }
  MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
  for (int peer = 0; peer < ranks; ++peer) check(in + (size_t)peer * count, count, peer, round, "a message");

  memset(in, 0, (size_t)count * (size_t)ranks);
  MPI_Alltoall(out, count, MPI_BYTE, in, count, MPI_BYTE, MPI_COMM_WORLD);
  for (int peer = 0; peer < ranks; ++peer) check(in + (size_t)peer * count, count, peer, round, "an all-to-all part");
  free(in);
  free(out);
  free(requests);
}

static void sums(void) {
  enum { kNumbers = 20000 };
  static double mine[kNumbers], total[kNumbers];
  for (int at = 0; at < kNumbers; ++at) mine[at] = (double)rank + at;
  MPI_Allreduce(mine, total, kNumbers, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int at = 0; at < kNumbers; ++at) {
    if (total[at] != ranks * (ranks - 1) / 2.0 + (double)ranks * at) fail("a sum", rank, (size_t)at);
  }
}

// Everybody writes a part of everybody's window, counts in it, and reads it back.
static void one_sided(void) {
  enum { kPart = 70000 };
  unsigned char* window_memory;
  long* counter;
  MPI_Win window, counters;
  MPI_Win_allocate((MPI_Aint)kPart * ranks, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window_memory, &window);
  MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &counters);
  *counter = 0;
  unsigned char* out = malloc((size_t)kPart * (size_t)ranks);
  unsigned char* back = malloc(kPart);
  MPI_Win_fence(0, window);
  for (int peer = 0; peer < ranks; ++peer) {
    fill(out + (size_t)peer * kPart, kPart, peer, 9);
    MPI_Put(out + (size_t)peer * kPart, kPart, MPI_BYTE, peer, (MPI_Aint)rank * kPart, kPart, MPI_BYTE, window);
  }
  MPI_Win_fence(0, window);
  for (int peer = 0; peer < ranks; ++peer) check(window_memory + (size_t)peer * kPart, kPart, peer, 9, "a put");
  const int next = (rank + 1) % ranks;
  MPI_Get(back, kPart, MPI_BYTE, next, (MPI_Aint)rank * kPart, kPart, MPI_BYTE, window);
  MPI_Win_fence(0, window);
  if (memcmp(back, out + (size_t)next * kPart, kPart) != 0) fail("a get", next, 0);

  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, counters);
  for (int round = 0; round < 50; ++round) {
    const long one = 1;
    long before;
    MPI_Fetch_and_op(&one, &before, MPI_LONG, 0, 0, MPI_SUM, counters);
    MPI_Win_flush(0, counters);
  }
  MPI_Win_unlock_all(counters);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, counters);
    if (*counter != 50L * ranks) fail("a count", 0, (size_t)*counter);
    MPI_Win_unlock(0, counters);
  }
  free(out);
  free(back);
  MPI_Win_free(&window);
  MPI_Win_free(&counters);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int round = 0; round < kRounds; ++round) {
    for (int count = 1; count <= kBytesMax; count *= 8) messages(count, round);
  }
  sums();
  one_sided();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks: all right\n", ranks);
  MPI_Finalize();
  return 0;
}
