(** * E[tau], the mean accepted length

    The accepted length is the number of texts of 1 to [L] tokens that the accepted text reaches, so E[tau] is the
    sum of the probabilities of reaching them. *)

From Coq Require Import List Arith Bool Reals Lra Lia.
From SpectrVerify Require Import Laws Rules Means Token Block Uniform BlockRace Emissions.
Import ListNotations.
Open Scope R_scope.

(** E[tau], and the sum over all nodes: the texts of 1 to [L] tokens. *)
Definition expected_accepted (d : law R emission) : R := mean d (fun u => INR (length (fst u))).

Definition sum_over_nodes (V L : nat) (f : text -> R) : R := sum (seq 1 L) (fun n => sum (texts_of V n) f).

(** ** Counting the nodes that a text reaches *)

Lemma texts_of_spec V n v : In v (texts_of V n) <-> vocabulary_text V v /\ length v = n.
Proof.
  split; [| intros [Hv <-]; now apply in_texts_of].
  revert v. induction n as [| n IH]; intros v; simpl.
  - intros [<- | []]. split; [constructor | reflexivity].
  - intros H. apply in_flat_map in H as (u & Hu & H). apply in_map_iff in H as (c & <- & Hc).
    apply IH in Hu as [Hu <-]. apply in_seq in Hc. split; [constructor; [lia | exact Hu] | reflexivity].
Qed.

Lemma sum_flat_map {A B} (h : A -> list B) (l : list A) (f : B -> R) :
  sum (flat_map h l) f = sum l (fun a => sum (h a) f).
Proof. induction l as [| a l IH]; [reflexivity |]. cbn [flat_map]. now rewrite sum_app, sum_cons, IH. Qed.

(** A sum over the texts of [n] tokens in which a single one counts. *)
Lemma sum_texts_single V n f u : vocabulary_text V u -> length u = n ->
  (forall v, length v = n -> v <> u -> f v = 0) -> sum (texts_of V n) f = f u.
Proof.
  intros Hu <-. revert f. induction Hu as [| c u Hc Hu IH]; intros f H.
  - simpl. rewrite sum_cons, sum_nil. ring.
  - cbn [length texts_of]. rewrite sum_flat_map.
    rewrite (IH (fun v => sum (map (fun c => c :: v) (vocabulary V)) f)).
    + rewrite sum_map. apply (sum_single (vocabulary V) (fun d => f (d :: u)));
        [apply seq_NoDup | apply in_seq; lia |]. intros d _ Hd. apply H; [reflexivity | congruence].
    + intros v Hl Hv. rewrite sum_map, (sum_ext _ _ (fun _ => 0)), sum_zero; [reflexivity |].
      intros d _. apply H; [simpl; now rewrite Hl | congruence].
Qed.

Lemma reached_of_length V u n : vocabulary_text V u ->
  sum (texts_of V n) (fun v => if reaches v u then 1 else 0) = if n <=? length u then 1 else 0.
Proof.
  intros Hu. destruct (Nat.leb_spec n (length u)) as [Hn | Hn].
  - set (v := skipn (length u - n) u).
    assert (E : u = firstn (length u - n) u ++ v) by (symmetry; apply firstn_skipn).
    assert (Hl : length v = n) by (unfold v; rewrite skipn_length; lia).
    rewrite (sum_texts_single V n _ v).
    + now rewrite (proj2 (reaches_iff v u)) by now exists (firstn (length u - n) u).
    + rewrite E in Hu. now apply Forall_app in Hu.
    + exact Hl.
    + intros w Hlw Hw. destruct (reaches w u) eqn:E'; [| reflexivity]. apply reaches_iff in E' as [t E'].
      rewrite E' in E. apply same_end in E as [_ E]; [contradiction | congruence].
  - rewrite (sum_ext _ _ (fun _ => 0)); [apply sum_zero |]. intros v Hv. apply texts_of_spec in Hv as [_ Hv].
    destruct (reaches v u) eqn:E; [| reflexivity]. apply reaches_iff in E as [t E].
    apply (f_equal (@length nat)) in E. rewrite app_length in E. lia.
Qed.

Lemma count_up_to k L : (k <= L)%nat -> sum (seq 1 L) (fun n => if n <=? k then 1 else 0) = INR k.
Proof.
  intros H. replace L with (k + (L - k))%nat by lia. rewrite seq_app, sum_app.
  rewrite (sum_ext (seq 1 k) _ (fun _ => 1)), (sum_ext (seq (1 + k) (L - k)) _ (fun _ => 0)), sum_zero.
  - clear. induction k as [| k IH]; [simpl; rewrite sum_nil; ring |].
    rewrite seq_S, sum_app, sum_cons, sum_nil, S_INR. lra.
  - intros n Hn. apply in_seq in Hn. now rewrite (proj2 (Nat.leb_gt n k)) by lia.
  - intros n Hn. apply in_seq in Hn. now rewrite (proj2 (Nat.leb_le n k)) by lia.
Qed.

Lemma expected_accepted_is_a_sum V L d : outcomes (fits V L) d ->
  expected_accepted d = sum_over_nodes V L (fun v => probability d (fun u => reaches v (fst u))).
Proof.
  intros Hd. unfold expected_accepted, sum_over_nodes, probability.
  rewrite (sum_ext _ _ (fun n => mean d (fun u => sum (texts_of V n) (fun v => if reaches v (fst u) then 1 else 0))))
    by (intros; now rewrite mean_sum).
  rewrite <- mean_sum. apply (mean_ext_outcomes _ _ _ _ Hd). intros u [Hl Hu].
  inversion Hu as [| ? ? _ Hv]; subst. rewrite <- (count_up_to _ L Hl). apply sum_ext. intros n _.
  symmetry. now apply reached_of_length.
Qed.

Lemma sum_over_nodes_ext V L f g :
  (forall v, vocabulary_text V v -> (length v <= L)%nat -> f v = g v) -> sum_over_nodes V L f = sum_over_nodes V L g.
Proof.
  intros H. apply sum_ext. intros n Hn. apply in_seq in Hn. apply sum_ext. intros v Hv.
  apply texts_of_spec in Hv as [Hv Hl]. apply H; [exact Hv | lia].
Qed.

(** ** Token verification reaches v with the product of min(p, q) along v *)

Section TokenReach.
  Variables (V L : nat) (p q : model R).
  Hypothesis Hp : is_model V p.
  Hypothesis Hq : is_model V q.

  (** The product along [s], which follows [v]. *)
  Fixpoint overlap (v s : text) : R :=
    match s with
    | [] => 1
    | c :: s' => overlap v s' * minimum (p (s' ++ v) c) (q (s' ++ v) c)
    end.

  Lemma overlap_first v s c : overlap v (s ++ [c]) = minimum (p v c) (q v c) * overlap (c :: v) s.
  Proof.
    induction s as [| b s IH]; simpl; [ring |]. rewrite IH, <- app_assoc. simpl. ring.
  Qed.

  Lemma accepted_share v c : p v c * minimum 1 (ratio (q v c) (p v c)) = minimum (p v c) (q v c).
  Proof.
    pose proof (drafted_and_accepted V p q Hp Hq 1 v c ltac:(lra)) as H. rewrite Rmult_1_l in H. rewrite H.
    destruct (residual_spec p q 1 v c) as [[-> ?] | [-> ?]];
      destruct (minimum_spec (p v c) (q v c)) as [[? ->] | [? ->]]; lra.
  Qed.

  Let stops (reached : R) (v : text) (x : list nat) (g : text -> R) : R :=
    sum (combine (stop_at_first_rejection reached (acceptances p q v x)) (path v x)) (fun wa => fst wa * g (snd wa)).

  Lemma token_reaching z n s v reached : vocabulary_text V z -> z = s ++ v -> (length s <= n)%nat ->
    mean (draft V p n v) (fun x => stops reached v x (fun u => if reaches z u then 1 else 0)) = reached * overlap v s.
  Proof.
    intros Hz. revert s v reached. induction n as [| n IH]; intros s v reached Es Hn;
      destruct s as [| c s _] using rev_ind; try (rewrite app_length in Hn; simpl in Hn; lia).
    1, 2: simpl in Es; subst v; rewrite (mean_ext _ _ (fun _ => reached));
      [rewrite (mean_constant _ _ (draft_total V p Hp _ _)); simpl; ring |];
      intros x; rewrite <- (stop_total p q reached z x) at 2; apply sum_ext; intros [w u] Hin; cbn [fst snd];
      apply in_combine_r, in_path in Hin as Ht; rewrite (proj2 (reaches_iff z u)) by exact Ht; ring.
    rewrite (mean_draft_step V p Hp). rewrite (sum_single _ _ c).
    - rewrite (mean_ext _ _ (fun x => stops (reached * minimum 1 (ratio (q v c) (p v c))) (c :: v) x
        (fun u => if reaches z u then 1 else 0))).
      + rewrite (IH s); [| rewrite Es, <- app_assoc; reflexivity | rewrite app_length in Hn; simpl in Hn; lia].
        rewrite overlap_first, <- accepted_share. ring.
      + intros x. unfold stops. cbn [acceptances path stop_at_first_rejection combine]. rewrite sum_cons. cbn [fst snd].
        destruct (reaches z v) eqn:E; [| reals; ring].
        apply reaches_iff in E as [t E]. apply (f_equal (@length nat)) in E.
        rewrite Es, !app_length in E. simpl in E. lia.
    - apply seq_NoDup.
    - apply in_seq. rewrite Es in Hz. apply Forall_app in Hz as [Hz _]. apply Forall_app in Hz as [_ Hz].
      inversion Hz; subst. lia.
    - intros b _ Hb. rewrite (mean_ext _ _ (fun _ => 0)), mean_zero; [ring |]. intros x. unfold stops.
      rewrite (sum_ext _ _ (fun _ => 0)), sum_zero; [reflexivity |]. intros [w u] Hin. cbn [fst snd].
      destruct (reaches z u) eqn:E; [| ring]. exfalso. apply reaches_iff in E as [t E].
      apply in_combine_r in Hin. destruct Hin as [<- | Hin].
      + apply (f_equal (@length nat)) in E. rewrite Es, !app_length in E. simpl in E. lia.
      + apply in_path in Hin as [t' ->]. rewrite Es, <- app_assoc, app_assoc in E.
        apply same_end in E as [_ E]; [| reflexivity]. simpl in E. apply Hb. now inversion E.
  Qed.

  Lemma correction_total w v : mean (categorical (vocabulary V) (correction V L p q w v)) (fun _ => 1) = 1.
  Proof.
    unfold correction, or_target. destruct (length v =? L).
    { rewrite (mean_next V q Hq). etransitivity; [| apply (next_total V q Hq v)]. apply sum_ext. intros. ring. }
    destruct (existsb _ _) eqn:E.
    - apply existsb_exists in E as (c & Hc & E).
      destruct (positive_spec (residual p q w v c)) as [[Hpos _] | [_ E']]; [| congruence].
      pose proof (sum_member (vocabulary V) (residual p q w v) c (fun b _ => residual_nonneg p q w v b) Hc) as Hs.
      apply (Rmult_eq_reg_l (sum (vocabulary V) (residual p q w v))); [| lra].
      rewrite categorical_total by lra. rewrite Rmult_1_r. apply sum_ext. intros. ring.
    - rewrite (mean_next V q Hq). etransitivity; [| apply (next_total V q Hq v)]. apply sum_ext. intros. ring.
  Qed.

  Theorem token_reach v : vocabulary_text V v -> (length v <= L)%nat ->
    probability (emitted V L p (token V L p q)) (fun u => reaches v (fst u)) = overlap [] v.
  Proof.
    intros Hv HL. rewrite <- (Rmult_1_l (overlap [] v)).
    rewrite <- (token_reaching v L v [] 1 Hv (eq_sym (app_nil_r v)) HL).
    unfold probability, emitted. rewrite mean_bind. apply mean_ext. intros x.
    unfold token, stops. rewrite mean_bind, mean_choose by apply stop_total. apply sum_ext. intros [w u] _.
    cbn [fst snd]. f_equal. unfold emit. rewrite mean_bind.
    rewrite (mean_ext _ _ (fun _ => if reaches v u then 1 else 0)) by (intros; now rewrite mean_ret).
    apply mean_constant, correction_total.
  Qed.
End TokenReach.

(** ** E[tau] of the three rules *)

Section Theorems.
  Variables (V L : nat) (p q : model R).
  Hypothesis Hp : is_model V p.
  Hypothesis Hq : is_model V q.

  Theorem token_accepts :
    expected_accepted (emitted V L p (token V L p q)) = sum_over_nodes V L (overlap p q []).
  Proof.
    rewrite (expected_accepted_is_a_sum V L) by now apply token_emits_a_law.
    apply sum_over_nodes_ext. intros v Hv HL. now apply token_reach.
  Qed.

  Theorem block_accepts :
    expected_accepted (emitted V L p (block V L p q)) = sum_over_nodes V L (fun v => text_prob q v * rho p q v).
  Proof.
    rewrite (expected_accepted_is_a_sum V L) by now apply block_emits_a_law.
    apply sum_over_nodes_ext. intros v Hv HL. now apply block_reach.
  Qed.

  Theorem block_race_accepts K : (0 < K)%nat ->
    expected_accepted (emitted_from V L p K (block_race V L p q smallest_uniform))
    = sum_over_nodes V L (fun v => text_prob q v * (1 - (1 - rho p q v) ^ K)).
  Proof.
    intros HK. rewrite (expected_accepted_is_a_sum V L) by now apply block_race_emits_a_law.
    apply sum_over_nodes_ext. intros v Hv HL. now apply block_race_reach.
  Qed.
End Theorems.
