// A Java program whose library meets memory that is not there, while the virtual machine, which makes exceptions of faults, has its own:
// null pointers in compiled code, exhausted stacks, a mapped file that was shortened; a second thread collects garbage meanwhile.
//   java -Djava.library.path=BUILD/lib MissingMemory.java ROUNDS
import java.io.RandomAccessFile;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;

class MissingMemory {
  static native int round();

  static class Box {
    int value;
  }

  static int read(Box box) {
    return box.value;
  }

  static boolean nullPointer() {
    try {
      return read(null) == 1;
    } catch (NullPointerException expected) {
      return true;
    }
  }

  static int deeper(int depth) {
    return 1 + deeper(depth + 1);
  }

  static boolean fullStack() {
    try {
      return deeper(0) == 1;
    } catch (StackOverflowError expected) {
      return true;
    }
  }

  static boolean shortenedFile() throws Exception {
    Path path = Files.createTempFile("missing-memory", "");
    try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
      file.setLength(65536);
      MappedByteBuffer mapped = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 65536);
      file.setLength(0);
      return mapped.get(32768) == 1;
    } catch (InternalError expected) {
      return true;
    } finally {
      Files.delete(path);
    }
  }

  static volatile Object kept;
  static volatile boolean done;

  public static void main(String[] arguments) throws Exception {
    System.loadLibrary("missing_memory");
    Box box = new Box();
    int sum = 0;
    for (int i = 0; i < 200_000; ++i) sum += read(box);  // from here on it is compiled, and looks for null by a fault
    Thread garbage = new Thread(() -> {
      while (!done) kept = new byte[10_000];
    });
    garbage.start();
    int right = 0, own = 0, rounds = Integer.parseInt(arguments[0]);
    for (int i = 0; i < rounds; ++i) {
      right += round();
      if (nullPointer() && fullStack() && shortenedFile()) ++own;
    }
    done = true;
    garbage.join();
    System.out.println(right + " of " + 3 * rounds + " requests, " + own + " of " + rounds + " faults of its own" + (sum == 0 ? "" : "?"));
  }
}
