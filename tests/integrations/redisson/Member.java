import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;

/**
 * Locks of the real Redisson in a process of its own: requests on stdin, answers on stdout.
 *
 * <p>A request is NUMBER THREAD VERB NAME [ARGUMENT...], an answer NUMBER VALUE or NUMBER ! ERROR.
 * Each THREAD is a Java thread of its own, so that one may wait while others go on. Times are in
 * milliseconds, -1 is a lease that Redisson's watchdog renews. member.py is the same in Python.
 */
public class Member {
  static RedissonClient redisson;
  static final Map<String, ExecutorService> THREADS = new ConcurrentHashMap<>();

  public static void main(String[] args) throws Exception {
    redisson = Redisson.create(config(args[0]));
    say("ready");
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
    for (String line = requests.readLine(); line != null; line = requests.readLine()) {
      String[] words = line.split(" ");
      THREADS.computeIfAbsent(words[1], name -> Executors.newSingleThreadExecutor())
          .execute(() -> say(words[0] + " " + answer(words)));
    }
    System.exit(0); // the parent is gone, or done with us: no clean-up, as in a crash
  }

  static Config config(String url) throws Exception {
    Config config = new Config();
    config.setLockWatchdogTimeout(Long.getLong("watchdog", config.getLockWatchdogTimeout()));
    String prefix = System.getProperty("prefix", "");
    BaseConfig<?> servers;
    if (Boolean.getBoolean("cluster")) {
      servers = config.useClusterServers().addNodeAddress(url)
          .setMasterConnectionMinimumIdleSize(1).setSlaveConnectionMinimumIdleSize(1);
    } else {
      servers = config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(1);
    }
    if (!prefix.isEmpty()) {
      map(servers, prefix);
    }
    return config;
  }

  /** Set a NameMapper that puts a prefix before names; its interface moved from 3 to 4. */
  static void map(BaseConfig<?> servers, String prefix) throws Exception {
    for (Method method : servers.getClass().getMethods()) {
      if (method.getName().equals("setNameMapper")) {
        Class<?> kind = method.getParameterTypes()[0];
        Object mapper = Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind},
            (self, called, given) -> called.getName().equals("map")
                ? prefix + given[0] : ((String) given[0]).substring(prefix.length()));
        method.invoke(servers, mapper);
        return;
      }
    }
  }

  static synchronized void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  static String answer(String[] words) {
    try {
      return String.valueOf(act(words[2], words[3], words));
    } catch (Exception error) {
      return "! " + error.getClass().getSimpleName() + ": " + error.getMessage();
    }
  }

  static long number(String[] words, int place) {
    return words.length > place ? Long.parseLong(words[place]) : -1;
  }

  static Object act(String verb, String name, String[] words) throws Exception {
    RLock lock = redisson.getLock(name);
    RFencedLock fenced = redisson.getFencedLock(name);
    switch (verb) {
      case "lock":
        lock.lock(number(words, 4), TimeUnit.MILLISECONDS);
        return true;
      case "try":
        return lock.tryLock(number(words, 4), number(words, 5), TimeUnit.MILLISECONDS);
      case "unlock":
        lock.unlock();
        return true;
      case "force":
        return lock.forceUnlock();
      case "locked":
        return lock.isLocked();
      case "owned":
        return lock.isHeldByCurrentThread();
      case "token":
        return fenced.lockAndGetToken();
      case "turns":
        return turns(lock, Path.of(words[4]), number(words, 5), number(words, 6));
      case "pairs":
        return pairs(lock, number(words, 4));
      case "crowd":
        return crowd(lock, number(words, 4), number(words, 5));
      default:
        throw new IllegalArgumentException(verb);
    }
  }

  /** Take turns in several threads until all members have had so many; how many each had. */
  static String turns(RLock lock, Path folder, long total, long threads) throws Exception {
    Callable<Long> worker = () -> {
      for (long had = 0; ; had++) {
        lock.lock();
        try {
          if (!turn(folder, total)) {
            return had;
          }
        } finally {
          lock.unlock();
        }
      }
    };
    List<String> had = new ArrayList<>();
    for (Object each : inThreads(worker, threads)) {
      had.add(String.valueOf(each));
    }
    return String.join(",", had);
  }

  /** Enter alone, and count: a file that is there already is another member inside. */
  static boolean turn(Path folder, long total) throws IOException {
    Path inside = folder.resolve("inside");
    Path count = folder.resolve("count");
    try {
      Files.createFile(inside);
    } catch (FileAlreadyExistsException error) {
      throw new IllegalStateException("two are inside", error);
    }
    long before = Long.parseLong(Files.readString(count));
    if (before < total) {
      Files.writeString(count, String.valueOf(before + 1));
    }
    Files.delete(inside);
    return before < total;
  }

  /** Lock and unlock so many times; the median nanoseconds that a pair took. */
  static long pairs(RLock lock, long count) {
    long[] taken = new long[(int) count];
    for (int done = 0; done < count; done++) {
      long begin = System.nanoTime();
      lock.lock();
      lock.unlock();
      taken[done] = System.nanoTime() - begin;
    }
    Arrays.sort(taken);
    return taken[(int) count / 2];
  }

  /** Lock and unlock in several threads for so long; how many pairs all had. */
  static long crowd(RLock lock, long threads, long milliseconds) throws Exception {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(milliseconds);
    Callable<Long> worker = () -> {
      long had = 0;
      for (; System.nanoTime() < end; had++) {
        lock.lock();
        lock.unlock();
      }
      return had;
    };
    long sum = 0;
    for (Long each : inThreads(worker, threads)) {
      sum += each;
    }
    return sum;
  }

  static <T> List<T> inThreads(Callable<T> worker, long threads) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool((int) threads);
    List<Future<T>> begun = new ArrayList<>();
    for (long each = 0; each < threads; each++) {
      begun.add(pool.submit(worker));
    }
    List<T> results = new ArrayList<>();
    for (Future<T> each : begun) {
      results.add(each.get());
    }
    pool.shutdown();
    return results;
  }
}
